"""TODO"""

def compress(codec, book, tables): raise NotImplementedError
def decompress(codec, book, data, max_rows): raise NotImplementedError
