"use strict";
// Whatever comes from the model (names, levels, values, messages) goes into the page as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const CARDS = 60; // shown at first
const LEVELS = 8; // of a column, shown at first
const SURE = 1.96; // standard errors on either side: 95%

const at = (id) => document.getElementById(id);
let model, base, answer;
let conditions = new Map(); // by column: {levels: [..]} or {from, to} (texts, null is open), and empty
let cards = [], limit = CARDS;

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("aria-") || name === "role") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

function draw(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

// ------------------------------------------------------------------ numbers in words

function percent(share) {
  if (share === 0) return "0%";
  if (share > 0.9995 && share < 1) return ">99.9%";
  const value = 100 * share;
  if (value >= 9.95) return `${value.toFixed(value >= 99.5 && share < 1 ? 1 : 0)}%`;
  if (value >= 0.1) return `${value.toFixed(1)}%`;
  if (value >= 0.001) return `${Number(value.toPrecision(1))}%`;
  return "<0.001%";
}

function exact(share, digits = 3) {
  const value = 100 * share;
  if (share === 1) return "100%";
  if (value >= 0.001) return `${Number(value.toPrecision(digits))}%`;
  return `${value.toExponential(1)}%`;
}

function oneIn(share) {
  if (!(share > 0)) return "never";
  const times = 1 / share;
  if (times < 10) return `1 in ${times < 1.5 ? times.toFixed(1) : Math.round(times)}`;
  if (times < 1e6) return `1 in ${Number(times.toPrecision(2)).toLocaleString("en")}`;
  return `1 in ${times.toExponential(0).replace("e+", "e")}`;
}

function within(n) { return Number(n.toPrecision(2)).toLocaleString("en"); }

// ------------------------------------------------------------------ asking

async function question(place, content, signal) {
  const reply = await fetch(place, content === undefined ? { signal } : {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(content), signal,
  });
  const found = await reply.json();
  if (!reply.ok) throw new Error(found.error || `error ${reply.status}`);
  return found;
}

function asked() {
  return [...conditions].map(([column, own]) => ({ column, ...own }));
}

function fail(error) {
  if (error && error.name === "AbortError") return;
  const lost = error instanceof TypeError;
  at("failed").textContent = lost ? "lbarn explore does not answer: has it been ended in the terminal?" : String(error.message);
  at("failed").hidden = false;
}

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
let serial = 0, running = new AbortController();

/** Ask for what the conditions make of the columns: a first answer at once, a better one after it. */
async function refresh({ refine = true } = {}) {
  const mine = ++serial;
  running.abort();
  running = new AbortController();
  const { signal } = running;
  showConditions();
  history.replaceState(null, "", conditions.size ? `#${encodeURIComponent(JSON.stringify(asked()))}` : location.pathname);
  document.body.classList.add("asking");
  try {
    if (!conditions.size) {
      answer = base;
      showAnswer(true);
      if (!base.complete) {
        const better = await question("api/ask", { conditions: [], refined: true }, signal);
        base = better;
        if (mine === serial) { answer = better; showAnswer(true); }
      }
    } else {
      const begun = performance.now();
      const first = await question("api/ask", { conditions: asked() }, signal);
      if (mine !== serial) return;
      answer = first;
      showAnswer(false);
      document.body.dataset.milliseconds = Math.round(performance.now() - begun);
      if (refine) {
        await pause(150);
        if (mine !== serial) return;
        if (!base.complete) base = await question("api/ask", { conditions: [], refined: true }, signal);
        const better = await question("api/ask", { conditions: asked(), refined: true }, signal);
        if (mine !== serial) return;
        answer = better;
        showAnswer(true);
      }
    }
    at("failed").hidden = true;
  } catch (error) {
    if (mine === serial) fail(error);
  } finally {
    if (mine === serial && refine) {
      document.body.classList.remove("asking");
      document.body.dataset.answered = mine;
    }
  }
}

function setCondition(column, own, options) {
  if (own === null) conditions.delete(column);
  else conditions.set(column, own);
  return refresh(options);
}

// ------------------------------------------------------------------ conditions

/** A bar of a column of numbers within the range that is chosen. */
function chosenBars(column) {
  const own = conditions.get(column);
  const { bars, numeric } = model.columns[column];
  if (!own) return bars.map(() => true);
  if (!numeric) return bars.map((bar) => (bar.empty ? Boolean(own.empty) : bar.rest ? false : own.levels.includes(bar.level)));
  const p = answer.columns[column].p;
  return bars.map((bar, k) => (bar.empty ? Boolean(own.empty) : !own.levels && p[k] > 0));
}

function told(column) {
  const own = conditions.get(column);
  const { bars, numeric } = model.columns[column];
  const label = (text, end) => {
    const bar = bars.find((one) => one[end] === text);
    return bar ? bar.words[end === "from" ? 0 : 1] : text;
  };
  let words;
  if (!numeric) words = own.levels.map((level) => bars.find((bar) => bar.level === level)?.label ?? level).join(" or ");
  else if (own.levels) words = "";
  else if (own.from === null) words = `up to ${label(own.to, "to")}`;
  else if (own.to === null) words = `${label(own.from, "from")} or more`;
  else if (own.from === own.to) words = label(own.from, "from");
  else words = `${label(own.from, "from")} to ${label(own.to, "to")}`;
  if (own.empty) words = words ? `${words} or empty` : "empty";
  return words;
}

function showConditions() {
  const list = at("chips");
  const focused = [...list.children].findIndex((item) => item.contains(document.activeElement));
  list.replaceChildren();
  for (const column of conditions.keys()) {
    const { name } = model.columns[column];
    const words = told(column);
    const text = make("bdi", { textContent: name });
    const chip = make("button", { type: "button", "aria-label": `Remove the condition ${name}: ${words}` }, text, ": ", make("bdi", { textContent: words }));
    chip.addEventListener("click", () => setCondition(column, null));
    list.append(make("li", {}, chip));
  }
  if (focused >= 0) (list.children[Math.min(focused, list.children.length - 1)]?.firstChild ?? at("columns")).focus();
  at("reset").hidden = !conditions.size;
  const link = new URLSearchParams({ n: at("file-count").value || "1000", conditions: JSON.stringify(asked()) });
  at("download").href = `rows.csv?${link}`;
  for (const card of cards) card.showCondition?.();
}

// ------------------------------------------------------------------ the answer

function showAnswer(final) {
  const { probability, error, effective, method } = answer;
  at("share").textContent = conditions.size ? exact(probability) : "All rows";
  const margin = SURE * error;
  at("margin").textContent = !conditions.size ? "" : `${margin > 0 ? `\u00b1 ${exact(margin, 2)}` : ""} of rows`;
  let how = "Nothing is fixed yet.";
  if (conditions.size) {
    how = method === "counted" ? `${oneIn(probability)} rows; counted in ${within(effective)} drawn ones`
      : `${oneIn(probability)} rows; Monte Carlo, worth ${within(effective)} drawn ones`;
    how += final ? ". Thin lines are 95% intervals." : "; being refined.";
  }
  at("how").textContent = how;
  document.body.classList.toggle("plain", !conditions.size);
  for (const card of cards) card.showAnswer?.();
  if (final) {
    arrange();
    at("said").textContent = conditions.size ? `${exact(probability)} of rows meet the conditions, give or take ${exact(margin, 2)}.` : "No conditions: all rows.";
  }
}

/** How far a column is from what it is in all rows: the share of rows that would have to change; 0 if that may be chance. */
function change(column) {
  if (!conditions.size) return 0;
  const { p, error } = answer.columns[column];
  const before = base.columns[column];
  let distance = 0, noise = 0;
  p.forEach((share, k) => {
    distance += Math.abs(share - before.p[k]) / 2;
    noise += Math.hypot(error[k], before.error[k]) * 0.4;
  });
  return distance > 1.5 * noise + 0.003 ? distance : 0;
}

// ------------------------------------------------------------------ cards

class Card {
  constructor(column) {
    this.column = column;
    this.own = model.columns[column];
    this.several = false;
    this.all = false;
  }

  get element() {
    if (!this.root) this.build();
    return this.root;
  }

  build() {
    const { own, column } = this;
    const title = make("h3", { id: `name-${column}`, dir: "auto", textContent: own.name });
    this.change = make("span", { className: "change" });
    const kind = make("p", { className: "kind", dir: "auto", textContent: `${own.kind} \u00b7 ${own.values}`, title: own.values });
    this.root = make("article", { className: "card", id: `column-${column}`, tabIndex: -1, "aria-labelledby": title.id },
      make("div", { className: "top" }, title, this.change), kind);
    this.bars = [];
    if (own.numeric) this.buildHistogram();
    this.buildLevels();
    this.summary = make("span", { className: "small" });
    this.foot = make("div", { className: "foot" }, this.summary);
    this.buttons = make("span", { className: "line" });
    this.foot.append(this.buttons);
    this.root.append(this.foot);
    if (own.numeric) this.buildRange();
    this.any = this.button("Any", `Remove the condition on ${own.name}`, () => { this.several = false; setCondition(column, null); });
    if (!own.numeric && own.bars.length > 2) {
      this.add = this.button("Several", `Choose several levels of ${own.name}`, () => { this.several = !this.several; this.showCondition(); });
    }
    this.showCondition();
    this.showAnswer();
  }

  button(text, label, act) {
    const button = make("button", { type: "button", textContent: text, "aria-label": label, title: label });
    button.addEventListener("click", act);
    this.buttons.append(button);
    return button;
  }

  // -------------------------------------------------------------- levels, and the empty value

  buildLevels() {
    const { own } = this;
    this.list = make("ul", { className: "levels" });
    const longest = Math.max(...own.bars.filter((bar) => !own.numeric || bar.empty).map((bar) => [...bar.label].length), 0);
    this.root.style.setProperty("--label", `${Math.min(8.2, 0.7 + 0.62 * longest)}rem`);
    own.bars.forEach((bar, k) => {
      if (own.numeric && !bar.empty) return;
      const parts = ["ghost", "fill", "err"].map((name) => make("i", { className: name }));
      const number = make("span", { className: "percent" });
      const button = make("button", { type: "button", className: bar.empty ? "level empty" : "level", "aria-pressed": "false" },
        make("span", { className: "label", dir: "auto", textContent: bar.label, title: bar.label }),
        make("span", { className: "track" }, ...parts), number);
      button.disabled = Boolean(bar.rest);
      button.addEventListener("click", (event) => this.choose(bar, event.shiftKey || event.ctrlKey || event.metaKey || this.several));
      const item = make("li", {}, button);
      this.list.append(item);
      this.bars[k] = { button, number, item, parts };
    });
    this.root.append(this.list);
    const hidden = own.numeric ? 0 : own.bars.length - LEVELS;
    if (hidden > 1) {
      this.more = make("button", { type: "button", className: "go small" });
      this.more.addEventListener("click", () => { this.all = !this.all; this.showAnswer(); });
      this.root.append(this.more);
    }
  }

  choose(bar, several) {
    const before = conditions.get(this.column);
    if (this.own.numeric) {
      if (!before) setCondition(this.column, { levels: [], empty: true });
      else if (before.levels) setCondition(this.column, null);
      else setCondition(this.column, { ...before, empty: !before.empty });
      return;
    }
    let levels = before ? [...before.levels] : [], empty = Boolean(before?.empty);
    const there = bar.empty ? empty : levels.includes(bar.level);
    if (several) {
      if (bar.empty) empty = !empty;
      else levels = there ? levels.filter((level) => level !== bar.level) : [...levels, bar.level];
    } else {
      const only = there && levels.length + empty === 1;
      levels = only || bar.empty ? [] : [bar.level];
      empty = !only && Boolean(bar.empty);
    }
    const none = !levels.length && !empty;
    const everything = levels.length + empty === this.own.n_levels + this.own.bars.some((one) => one.empty);
    setCondition(this.column, none || everything ? null : { levels, empty });
  }

  // -------------------------------------------------------------- numbers

  buildHistogram() {
    const { own, column } = this;
    this.ranges = own.bars.map((bar, k) => k).filter((k) => !own.bars[k].empty);
    this.hist = make("div", { className: "hist", tabIndex: 0, role: "listbox", "aria-multiselectable": "true", "aria-orientation": "horizontal",
      "aria-label": `${own.name}: arrow keys move along the bars, Enter chooses one, Shift with an arrow key makes a range, Escape clears` });
    for (const k of this.ranges) {
      const parts = ["ghost", "fill", "err"].map((name) => make("i", { className: name }));
      const bar = make("div", { id: `bar-${column}-${k}`, role: "option", "aria-selected": "false" }, ...parts);
      this.hist.append(bar);
      this.bars[k] = { bar, parts };
    }
    const ticks = make("div", { className: "ticks", "aria-hidden": "true" });
    const centered = this.ranges.length <= 6;
    for (const [place, text] of own.ticks) {
      const tick = make("span", { textContent: text, className: centered ? "middle" : "" });
      tick.style.left = `${100 * place}%`;
      ticks.append(tick);
    }
    this.root.append(this.hist, ticks);
    this.cursor = 0;
    this.anchor = 0;
    this.listen();
  }

  listen() {
    const { hist } = this;
    const place = (event) => {
      const box = hist.getBoundingClientRect();
      const share = (event.clientX - box.left) / box.width;
      return Math.min(this.ranges.length - 1, Math.max(0, Math.floor(share * this.ranges.length)));
    };
    let from = null, to = null;
    hist.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      from = to = place(event);
      hist.setPointerCapture(event.pointerId);
      this.mark(from, to);
    });
    hist.addEventListener("pointermove", (event) => {
      if (from === null || place(event) === to) return;
      to = place(event);
      this.mark(from, to);
      this.pick(from, to, { refine: false });
    });
    const end = (event) => {
      if (from === null) return;
      const [a, b] = [from, to];
      from = to = null;
      this.mark(-1, -1);
      if (event.type === "pointercancel") return void refresh();
      this.cursor = this.anchor = a;
      this.pick(a, b, { toggle: a === b });
    };
    hist.addEventListener("pointerup", end);
    hist.addEventListener("pointercancel", end);
    hist.addEventListener("keydown", (event) => {
      const last = this.ranges.length - 1;
      const moves = { ArrowLeft: this.cursor - 1, ArrowRight: this.cursor + 1, Home: 0, End: last };
      if (event.key in moves) {
        this.cursor = Math.min(last, Math.max(0, moves[event.key]));
        if (event.shiftKey) this.pick(this.anchor, this.cursor);
        else this.anchor = this.cursor;
        this.point();
      } else if (event.key === "Enter" || event.key === " ") {
        this.anchor = this.cursor;
        this.pick(this.cursor, this.cursor, { toggle: true });
      } else if (event.key === "Escape") {
        setCondition(this.column, null);
      } else return;
      event.preventDefault();
    });
    hist.addEventListener("focus", () => this.point());
    hist.addEventListener("blur", () => this.point(false));
  }

  point(shown = true) {
    this.ranges.forEach((k, place) => this.bars[k].bar.classList.toggle("cursor", shown && place === this.cursor && this.hist.matches(":focus-visible")));
    this.hist.setAttribute("aria-activedescendant", this.bars[this.ranges[this.cursor]].bar.id);
  }

  mark(a, b) {
    const [low, high] = a <= b ? [a, b] : [b, a];
    this.ranges.forEach((k, place) => this.bars[k].bar.classList.toggle("drag", place >= low && place <= high));
  }

  pick(a, b, { toggle = false, refine = true } = {}) {
    const [low, high] = a <= b ? [a, b] : [b, a];
    const before = conditions.get(this.column);
    const from = this.own.bars[this.ranges[low]].from, to = this.own.bars[this.ranges[high]].to;
    const same = before && before.from === from && before.to === to;
    if ((toggle && same) || (low === 0 && high === this.ranges.length - 1 && !this.own.bars.some((bar) => bar.empty))) {
      setCondition(this.column, null, { refine });
    } else setCondition(this.column, { from, to, empty: Boolean(before?.empty && !before.levels) }, { refine });
  }

  buildRange() {
    const { own, column } = this;
    const [from, to] = ["From", "To"].map((word) => {
      const input = make("input", { type: "text", autocomplete: "off", spellcheck: false, "aria-label": `${own.name}: ${word.toLowerCase()}` });
      return [make("label", {}, word, input), input];
    });
    this.wrong = make("span", { className: "wrong", role: "alert" });
    const form = make("form", { className: "range", hidden: true }, from[0], to[0], make("button", { type: "submit", textContent: "Set" }), this.wrong);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const own = { from: from[1].value.trim() || null, to: to[1].value.trim() || null, empty: Boolean(conditions.get(column)?.empty) };
      this.wrong.textContent = "";
      try {
        if (own.from === null && own.to === null) return void setCondition(column, null);
        await question("api/ask", { conditions: [{ column, ...own }] });
        setCondition(column, own);
      } catch (error) { this.wrong.textContent = error.message; }
    });
    this.root.append(form);
    const open = this.button("Range\u2026", `Type a range of ${own.name}`, () => {
      form.hidden = !form.hidden;
      open.setAttribute("aria-expanded", String(!form.hidden));
      if (form.hidden) return;
      const before = conditions.get(column);
      from[1].value = before?.from ?? "";
      to[1].value = before?.to ?? "";
      from[1].focus();
    });
    open.setAttribute("aria-expanded", "false");
  }

  // -------------------------------------------------------------- what is shown

  showCondition() {
    if (!this.root) return;
    const is = conditions.has(this.column);
    this.root.classList.toggle("fixed", is);
    this.any.hidden = !is;
    if (this.add) {
      this.add.hidden = !is && !this.several;
      this.add.setAttribute("aria-pressed", String(this.several));
      this.add.classList.toggle("main", this.several);
    }
  }

  showAnswer() {
    if (!this.root) return;
    const { own, column } = this;
    const { p, error, summary } = answer.columns[column];
    const before = base.columns[column];
    const chosen = chosenBars(column);
    const fixed = conditions.has(column);
    const bounded = (k) => (fixed && !chosen[k] ? 0 : before.p[k]);
    const most = Math.max(1e-12, ...own.bars.map((bar, k) => (own.numeric && bar.empty ? 0 : Math.max(p[k] + Math.min(SURE * error[k], p[k] / 3), bounded(k)))));
    const visible = this.visibleLevels(chosen, fixed);
    own.bars.forEach((bar, k) => {
      const shown = this.bars[k];
      const scale = own.numeric && bar.empty ? 1 : most;
      const size = (share) => `${Math.min(100, (100 * share) / scale)}%`;
      const margin = SURE * error[k];
      const [low, high] = [Math.max(0, p[k] - margin), Math.min(scale, p[k] + margin)];
      const seen = conditions.size && (high - low) / scale > 0.02;
      const words = this.words(bar, k, margin, before);
      const [ghost, fill, err] = shown.parts;
      if (shown.bar) {
        ghost.style.height = size(before.p[k]);
        fill.style.height = p[k] > 0 ? size(p[k]) : "0";
        fill.hidden = !(p[k] > 0);
        err.style.bottom = size(low);
        err.style.height = size(high - low);
        shown.bar.classList.toggle("out", fixed && !chosen[k]);
        shown.bar.setAttribute("aria-selected", String(fixed && chosen[k]));
        shown.bar.setAttribute("aria-label", words);
        shown.bar.title = words;
      } else {
        ghost.style.width = size(before.p[k]);
        fill.style.width = size(p[k]);
        fill.hidden = !(p[k] > 0);
        err.style.left = size(low);
        err.style.width = size(high - low);
        shown.number.textContent = percent(p[k]);
        shown.button.classList.toggle("out", fixed && !chosen[k]);
        shown.button.setAttribute("aria-pressed", String(fixed && chosen[k]));
        shown.button.setAttribute("aria-label", words);
        shown.button.title = words;
        shown.item.hidden = !visible[k];
      }
      err.hidden = !seen;
    });
    if (this.more) {
      const hidden = own.bars.length - LEVELS;
      this.more.textContent = this.all ? "Show fewer" : `Show ${hidden} more`;
    }
    const moved = fixed ? 0 : change(column);
    this.change.textContent = moved ? `changed ${percent(moved)}` : "";
    this.change.title = moved ? `${percent(moved)} of rows would have to change this value to be as in all rows` : "";
    this.summary.textContent = this.told(summary, before.summary);
  }

  visibleLevels(chosen, fixed) {
    const { bars, numeric } = this.own;
    if (numeric || this.all || bars.length <= LEVELS + 1) return bars.map(() => true);
    const { p } = answer.columns[this.column];
    const rank = bars.map((_, k) => k).sort((a, b) => (fixed ? chosen[b] - chosen[a] : 0) || Math.max(p[b], 0) - Math.max(p[a], 0) || a - b);
    const kept = new Set(rank.slice(0, LEVELS));
    return bars.map((_, k) => kept.has(k));
  }

  words(bar, k, margin, before) {
    const { p } = answer.columns[this.column];
    if (!conditions.size) return `${bar.label}: ${percent(p[k])} of rows`;
    return `${bar.label}: ${percent(p[k])}${margin > 0 ? `, give or take ${percent(margin)}` : ""}; ${percent(before.p[k])} of all rows`;
  }

  told(now, before) {
    if (!now) return "";
    const [low, middle, high] = now;
    const words = low === high ? `80% are ${low}` : `median ${middle}, 80% within ${low} to ${high}`;
    return conditions.size && before && before[1] !== middle ? `${words} (median of all ${before[1]})` : words;
  }
}

function arrange() {
  const wanted = at("filter").value.trim().toLowerCase();
  const sort = at("sort").value;
  let order = model.columns.map((_, column) => column).filter((column) => model.columns[column].name.toLowerCase().includes(wanted));
  if (sort === "name") order.sort((a, b) => model.columns[a].name.localeCompare(model.columns[b].name));
  if (sort === "change") {
    const moved = new Map(order.map((column) => [column, conditions.has(column) ? 9 : change(column)]));
    order.sort((a, b) => moved.get(b) - moved.get(a) || a - b);
  }
  const shown = order.slice(0, limit);
  const elements = shown.map((column) => cards[column].element);
  const now = [...at("cards").children];
  if (now.length !== elements.length || now.some((element, k) => element !== elements[k])) {
    const focused = document.activeElement;
    at("cards").replaceChildren(...elements);
    if (focused?.isConnected) focused.focus({ preventScroll: true });
  }
  at("more").hidden = order.length <= limit;
  at("more").textContent = `Show ${Math.min(CARDS, order.length - limit)} more of ${order.length} columns`;
}

function goTo(column) {
  at("filter").value = "";
  if (!cards[column].root?.isConnected) limit = Math.max(limit, model.columns.length);
  arrange();
  const card = cards[column].element;
  card.scrollIntoView({ block: "center" });
  card.focus({ preventScroll: true });
}

// ------------------------------------------------------------------ rows

const quoted = (text) => (text === null ? "" : /[",;\t\n\r=]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

async function drawRows(event) {
  event?.preventDefault();
  const words = [...conditions.keys()].map((column) => `${model.columns[column].name}: ${told(column)}`).join("; ");
  const given = new Set(conditions.keys());
  try {
    const found = await question("api/rows", { conditions: asked(), n: Number(at("count").value) });
    const head = make("tr", {}, ...found.names.map((name) => make("th", { scope: "col", dir: "auto", textContent: name })), make("th", { scope: "col", textContent: "" }));
    const rows = found.rows.map((row, k) => {
      const line = make("tr", {}, ...row.map((value, column) => {
        const kind = value === null ? "none" : model.columns[column].numeric ? "number" : "";
        return make("td", { className: given.has(column) ? `${kind} given` : kind, dir: "auto", textContent: value === null ? "empty" : value });
      }));
      const button = make("button", { type: "button", textContent: "How strange?", "aria-label": `How strange is row ${k + 1}?` });
      button.addEventListener("click", () => {
        at("row").value = row.map(quoted).join(",");
        at("strange").scrollIntoView();
        judge();
      });
      line.append(make("td", {}, button));
      return line;
    });
    const caption = make("caption", { dir: "auto", textContent: `${found.rows.length} drawn rows${words ? `, given ${words}` : ""}` });
    at("drawn").firstElementChild.replaceChildren(caption, make("thead", {}, head), make("tbody", {}, ...rows));
    at("drawn").hidden = false;
    at("failed").hidden = true;
  } catch (error) { fail(error); }
}

// ------------------------------------------------------------------ strange rows

async function judge(event) {
  event?.preventDefault();
  const place = at("verdict");
  place.replaceChildren(make("p", { className: "quiet", textContent: "Looking at it\u2026" }));
  try {
    showVerdict(place, await question("api/strange", { row: at("row").value }));
  } catch (error) {
    place.replaceChildren(make("p", { className: "wrong", dir: "auto", textContent: error.message }));
  }
}

function showVerdict(place, found) {
  const parts = [];
  if (found.share_below !== undefined) {
    const share = found.share_below;
    const least = 1 / found.compared;
    const strange = share < least ? `Very strange: less likely than all of ${found.compared.toLocaleString("en")} drawn rows`
      : share < 0.01 ? `Strange: only ${percent(share)} of rows are less likely`
      : share < 0.1 ? `Unusual: ${percent(share)} of rows are less likely`
      : `An ordinary row: ${percent(share)} of rows are less likely`;
    parts.push(make("p", { className: "headline", textContent: strange }));
    const marker = make("i");
    marker.style.left = `${100 * share}%`;
    parts.push(make("div", { className: "scale", "aria-hidden": "true" }, marker),
      make("div", { className: "ends", "aria-hidden": "true" }, make("span", { textContent: "strangest" }), make("span", { textContent: "most ordinary" })));
  } else {
    parts.push(make("p", { className: "headline", textContent: "Judged by the values that are there" }));
  }
  const usual = found.usual ? `; 80% of rows are between ${found.usual[0].toFixed(1)} and ${found.usual[2].toFixed(1)}` : "";
  parts.push(make("p", { className: "quiet", textContent: `Log-likelihood ${found.log_likelihood.toFixed(2)} nats${usual}. Each value is compared with what the rest of the row makes likely.` }));
  const most = Math.max(4, ...found.columns.map((one) => one.excess));
  const list = make("ol", { className: "reasons" });
  for (const one of found.columns) {
    const name = make("button", { type: "button", className: "go what", dir: "auto", textContent: one.name });
    name.addEventListener("click", () => goTo(one.column));
    const odd = one.as_strange < 0.05 && one.excess > 1;
    const fill = make("i");
    fill.style.width = `${Math.max(0, (100 * one.excess) / most)}%`;
    const words = one.unseen ? "never seen in the data" : one.as_strange >= 0.2 ? "as expected" : `${oneIn(one.as_strange)} would be as unusual`;
    list.append(make("li", { className: odd ? "odd" : "" }, name,
      make("span", { className: "value", dir: "auto", textContent: one.value }),
      make("span", { className: "expected small", dir: "auto", textContent: `expected ${one.expected}` }),
      make("span", { className: "much", title: `surprise ${one.surprise.toFixed(2)} nats; ${one.usual.toFixed(2)} is usual here` },
        make("span", { className: "meter", "aria-hidden": "true" }, fill), make("span", { textContent: words }))));
  }
  parts.push(list);
  const notes = [];
  if (found.unknown.length) notes.push(`Not known: ${found.unknown.join(", ")}.`);
  if (found.left_out.length) notes.push(`Not in the model, and not looked at: ${found.left_out.join(", ")}.`);
  if (notes.length) parts.push(make("p", { className: "quiet", dir: "auto", textContent: notes.join(" ") }));
  place.replaceChildren(...parts);
}

async function example() {
  try {
    const found = await question("api/rows", { conditions: asked(), n: 1 });
    at("row").value = found.rows[0].map(quoted).join(",");
    await judge();
  } catch (error) { fail(error); }
}

// ------------------------------------------------------------------ dependencies

function showLinks() {
  const { links, around } = model;
  if (!links.length) {
    at("circle").replaceChildren(make("p", { className: "quiet lead", textContent: "The columns do not depend on each other." }));
    at("strongest").parentElement.hidden = true;
    return;
  }
  const narrow = window.matchMedia("(max-width: 44rem)").matches;
  const size = narrow ? 430 : 620, middle = size / 2, room = narrow ? 118 : 132, radius = middle - room;
  const svg = draw("svg", { viewBox: `0 0 ${size} ${size}`, role: "group", "aria-label": "The strongest links between columns; the list has them in words" });
  const place = new Map(around.map((column, k) => [column, (2 * Math.PI * k) / around.length - Math.PI / 2]));
  const spot = (angle, r) => [middle + r * Math.cos(angle), middle + r * Math.sin(angle)];
  const strongest = Math.max(...links.map((link) => link.share));
  const lines = draw("g", {});
  const drawn = links.map((link) => {
    const [a, b] = [place.get(link.a), place.get(link.b)];
    const [x, y] = spot(a, radius), [u, v] = spot(b, radius);
    const bend = [(x + u) / 4 + middle / 2, (y + v) / 4 + middle / 2]; // half the way from the chord to the middle
    const path = draw("path", { d: `M${x} ${y}Q${bend[0]} ${bend[1]} ${u} ${v}`, "stroke-width": 0.8 + 11 * (link.share / strongest) ** 0.6 });
    path.append(draw("title", {}));
    path.firstChild.textContent = `${model.columns[link.a].name} and ${model.columns[link.b].name}: ${percent(link.share)}`;
    lines.append(path);
    return path;
  });
  svg.append(lines);
  for (const [column, angle] of place) {
    const { name } = model.columns[column];
    const node = draw("a", { href: `#column-${column}`, "aria-label": `Go to column ${name}` });
    const [x, y] = spot(angle, radius);
    const left = Math.cos(angle) < -1e-9;
    const turn = (angle * 180) / Math.PI + (left ? 180 : 0);
    const text = draw("text", { transform: `translate(${spot(angle, radius + 12).join(" ")}) rotate(${turn})`, "text-anchor": left ? "end" : "start", "dominant-baseline": "central" });
    const letters = [...name], most = narrow ? 14 : 17;
    text.textContent = letters.length > most ? `${letters.slice(0, most - 1).join("")}\u2026` : name;
    node.append(draw("circle", { cx: x, cy: y, r: 5 }), text);
    const light = (on) => {
      lines.classList.toggle("dim", on);
      drawn.forEach((path, k) => path.classList.toggle("on", on && (links[k].a === column || links[k].b === column)));
    };
    for (const event of ["mouseenter", "focus"]) node.addEventListener(event, () => light(true));
    for (const event of ["mouseleave", "blur"]) node.addEventListener(event, () => light(false));
    node.addEventListener("click", (event) => { event.preventDefault(); goTo(column); });
    svg.append(node);
  }
  at("circle").replaceChildren(svg);
  const go = (column) => {
    const button = make("button", { type: "button", className: "go", textContent: model.columns[column].name, dir: "auto" });
    button.addEventListener("click", () => goTo(column));
    return button;
  };
  at("strongest").replaceChildren(...links.slice(0, 20).map((link) => make("li", {},
    make("span", { className: "much", textContent: percent(link.share) }), make("span", {}, go(link.a), " and ", go(link.b)))));
}

// ------------------------------------------------------------------ the whole

function remembered() {
  try {
    const content = JSON.parse(decodeURIComponent(location.hash.slice(1)));
    return new Map(content.filter(({ column }) => column in model.columns).map(({ column, ...own }) => [column, own]));
  } catch { return new Map(); }
}

async function begin() {
  document.body.classList.add("plain", "asking");
  try {
    model = await question("api/model");
  } catch (error) { return fail(error); }
  base = answer = model.base;
  at("name").textContent = model.name;
  document.title = `${model.name} \u00b7 lbarn`;
  const rows = model.rows ? `, fitted on ${model.rows.toLocaleString("en")} rows` : "";
  at("facts").textContent = `${model.kind} of ${model.columns.length.toLocaleString("en")} columns${rows}`;
  at("file-count").max = model.max_rows;
  at("row").placeholder = model.columns.slice(0, 3).map((own, k) => `${own.name}=${own.bars[0].level ?? own.bars[Math.floor(own.bars.length / 3)].from ?? ""}`).join(", ") + (model.columns.length > 3 ? ", \u2026" : "");
  if (model.left_out.length) {
    at("left-out").hidden = false;
    at("left-out").lastElementChild.append(...model.left_out.map(({ name, why }) => make("li", {}, make("bdi", { textContent: name }), `: ${why}`)));
  }
  cards = model.columns.map((_, column) => new Card(column));
  conditions = remembered();
  arrange();
  showLinks();
  at("filter").addEventListener("input", arrange);
  at("sort").addEventListener("change", arrange);
  at("more").addEventListener("click", () => { limit += CARDS; arrange(); });
  at("reset").addEventListener("click", () => { conditions.clear(); at("columns").focus({ preventScroll: true }); refresh(); });
  at("draw").addEventListener("submit", drawRows);
  at("file-count").addEventListener("input", showConditions);
  at("ask-row").addEventListener("submit", judge);
  at("example").addEventListener("click", example);
  await refresh();
}

begin();
