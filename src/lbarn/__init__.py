"""The joint distribution of many binary variables, exactly and fast, by boosted trees."""

from lbarn._core import simd_path

__all__ = ["simd_path"]
__version__ = "0.1.0"
