// @ts-check
"use strict";

/** The lines of a section before the passes, and the passes at which it is there or changes. */
function firstSection() {
  const first = trace.panes.find((pane) => pane.ir !== "python");
  if (!first) return [];
  const { sections, lines } = first;
  if (state.kernel) return sections[state.kernel] ? lines.slice(...sections[state.kernel]) : [];
  const inside = new Set();
  for (const [begin, end] of Object.values(sections))
    for (let n = begin; n < end; n++) inside.add(n);
  return lines.filter((_, n) => !inside.has(n));
}

/** @param {string[]} lines @param {Edit[]} edits */
function applied(lines, edits) {
  const made = [...lines];
  for (const edit of [...edits].reverse())
    made.splice(edit.begin, edit.end - edit.begin, ...edit.lines);
  return made;
}

/** The lines of the chosen section before a pass. @param {number} step */
function before(step) {
  let lines = firstSection();
  for (const pass of trace.passes.slice(0, step))
    lines = applied(lines, pass.edits[state.kernel] ?? []);
  return lines;
}

/** What is said of the chosen section. @param {Pass} pass */
function remarksOf(pass) {
  const own = pass.remarks.filter((r) => r.kernel === state.kernel || !r.kernel);
  return state.kernel ? own : pass.remarks.filter((r) => !r.kernel);
}

function drawSteps() {
  const longest = Math.max(...trace.passes.map((pass) => pass.seconds), 1e-9);
  const items = trace.passes.map((pass, step) => {
    const changed = state.kernel in pass.edits;
    const said = remarksOf(pass);
    const item = make("li", changed ? "" : "same", "", [
      make("span", "ms", `${(pass.seconds * 1e3).toFixed(1)} ms`),
      make("b", "", pass.name),
    ]);
    const text = said.map((r) => r.text).join("; ") || (changed ? "" : "nothing to do");
    item.append(make("div", "", text));
    if (!changed && said.some((r) => r.declined)) item.classList.add("declined");
    if (pass.verdict) item.append(verdictOf(pass.verdict));
    const time = make("span", "time");
    time.style.width = `${(100 * pass.seconds) / longest}%`;
    item.append(time);
    item.dataset.step = String(step);
    return item;
  });
  byId("steps").replaceChildren(...items);
  slider().max = String(Math.max(trace.passes.length - 1, 0));
  chooseStep(Math.min(state.step, trace.passes.length - 1));
}

/** @param {{text: string, wrong: boolean}} verdict */
const verdictOf = ({ text, wrong }) => make("div", wrong ? "verdict wrong" : "verdict",
  `${wrong ? "✗ " : text === "same results" ? "✓ " : ""}${text}`);

const slider = () => /** @type {HTMLInputElement} */ (byId("slider"));

/** @param {number} step */
function chooseStep(step) {
  state.step = Math.max(step, 0);
  const pass = trace.passes[state.step];
  slider().value = String(state.step);
  const items = [...byId("steps").children];
  items.forEach((item, n) => item.classList.toggle("at", n === state.step));
  if (!pass) {
    byId("diff").replaceChildren(make("p", "what", "No pass was needed."));
    return;
  }
  items[state.step].scrollIntoView({ block: "nearest" });
  byId("step").textContent = `${pass.name}, ${state.step + 1} of ${trace.passes.length}`;
  const was = before(state.step);
  const edits = pass.edits[state.kernel] ?? [];
  const whole = /** @type {HTMLInputElement} */ (byId("whole")).checked;
  const parts = [make("div", "what", pass.summary)];
  for (const said of remarksOf(pass)) parts.push(make("div", "what", said.text));
  if (pass.verdict) parts.push(make("div", "what", "", [verdictOf(pass.verdict)]));
  if (!edits.length) parts.push(make("div", "what", "It changes nothing here."));
  byId("diff").replaceChildren(...parts, ...diffLines(was, edits, whole ? Infinity : 3));
}

/** Lines of a diff, with so many unchanged ones around each change.
 * @param {string[]} was @param {Edit[]} edits @param {number} around @returns {HTMLElement[]} */
function diffLines(was, edits, around) {
  const made = [];
  let at = 0;
  for (let e = 0; e <= edits.length; e++) {
    const until = e < edits.length ? edits[e].begin : was.length;
    for (let n = at; n < until; n++) {
      const near = (e > 0 && n < at + around) || (e < edits.length && n >= until - around);
      if (near || around === Infinity) made.push(codeLine(was[n]));
      else if (n === at + (e > 0 ? around : 0)) made.push(make("div", "gap", "⋯"));
    }
    if (e === edits.length) break;
    const edit = edits[e];
    made.push(...changedLines(was.slice(edit.begin, edit.end), edit.lines));
    at = edit.end;
  }
  return made;
}

/** Old lines and new ones, with what differs marked in those that are alike.
 * @param {string[]} old @param {string[]} now @returns {HTMLElement[]} */
function changedLines(old, now) {
  const pairs = old.length * now.length <= 4000 ? alike(old, now) : new Map();
  const partner = new Map([...pairs].map(([o, n]) => [n, o]));
  return [
    ...old.map((text, n) => markedLine("old", text, pairs.has(n) ? now[pairs.get(n)] : null)),
    ...now.map((text, n) => markedLine("new", text, partner.has(n) ? old[partner.get(n)] : null)),
  ];
}

/** @param {string} text */
const wordsOf = (text) => text.match(/\s+|[%\w$.]+|./g) ?? [];

/** For lines that share at least half of their words their partners, in order.
 * @param {string[]} old @param {string[]} now @returns {Map<number, number>} */
function alike(old, now) {
  const found = new Map();
  let from = 0;
  old.forEach((text, o) => {
    const words = wordsOf(text.trim());
    let best = -1;
    let most = 0.5;
    for (let n = from; n < now.length; n++) {
      const others = wordsOf(now[n].trim());
      const share = (2 * commonWords(words, others)[0].size) / (words.length + others.length || 1);
      if (share > most) [best, most] = [n, share];
    }
    if (best >= 0) {
      found.set(o, best);
      from = best + 1;
    }
  });
  return found;
}

/** The words of both that are in a longest common subsequence.
 * @param {string[]} a @param {string[]} b @returns {[Set<number>, Set<number>]} */
function commonWords(a, b) {
  const length = Array.from({ length: a.length + 1 }, () => new Array(b.length + 1).fill(0));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      length[i][j] = a[i] === b[j]
        ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
  /** @type {[Set<number>, Set<number>]} */
  const found = [new Set(), new Set()];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) {
      found[0].add(i++);
      found[1].add(j++);
    } else if (length[i + 1][j] >= length[i][j + 1]) i++;
    else j++;
  }
  return found;
}

/** @param {"old" | "new"} kind @param {string} text @param {string | null} other */
function markedLine(kind, text, other) {
  const line = make("div", `line ${kind}`, kind === "old" ? "- " : "+ ");
  if (other === null) {
    addCode(line, text);
    return line;
  }
  const words = wordsOf(text);
  const [same] = commonWords(words, wordsOf(other));
  words.forEach((word, n) => line.append(same.has(n) ? word : make("mark", "", word)));
  return line;
}
