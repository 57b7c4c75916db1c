// @ts-check
"use strict";

/** The lines that a pane shows: of an IR with kernels those of the chosen one.
 * @param {Pane} pane @returns {[number, number][]} */
function shownLines(pane) {
  if (!Object.keys(pane.sections).length) return [[0, pane.lines.length]];
  if (state.kernel) return pane.sections[state.kernel] ? [pane.sections[state.kernel]] : [];
  /** @type {[number, number][]} */
  const rest = [];
  let at = 0;
  for (const [begin, end] of Object.values(pane.sections).sort((a, b) => a[0] - b[0])) {
    if (begin > at) rest.push([at, begin]);
    at = end;
  }
  return at < pane.lines.length ? [...rest, [at, pane.lines.length]] : rest;
}

/** Marks a line of Kernel IR at which the checker has found something, of either thread.
 * @param {HTMLElement} line @param {number} number */
function addHazard(line, number) {
  const said = hazardsAt(number);
  if (!said.length) return;
  line.classList.add("hazard");
  line.title = said.join("\n");
}

/** What the checker says of a line of the chosen kernel. @param {number} number */
function hazardsAt(number) {
  const checked = trace.kernels.find((k) => k.name === state.kernel)?.checked;
  return (checked?.hazards ?? []).filter((hazard) => hazard.line === number
    || hazard.accesses.some((access) => access.line === number)).map((hazard) => hazard.text);
}

/** Shows in the margin of a line of Kernel IR which part of a thread's issue slots it takes.
 * @param {HTMLElement} line @param {number} number */
function addCost(line, number) {
  const kernel = trace.kernels.find((k) => k.name === state.kernel);
  const cost = kernel?.lines[number];
  if (!kernel || !cost) return;
  line.classList.add("cost");
  line.style.setProperty("--share", String(Math.max(0.08, shareOf(kernel, cost))));
  line.title = costText(kernel, cost);
}

/** The part of a thread's issue slots. @param {Kernel} kernel @param {LineCost} cost */
const shareOf = (kernel, cost) => cost.slots / Math.max(kernel.figures.slots, 1);

/** @param {Kernel} kernel @param {LineCost} cost */
function costText(kernel, cost) {
  const share = (100 * shareOf(kernel, cost)).toFixed(1);
  const parts = [`${figure(cost.slots)} issue slots of a thread, ${share} %`];
  if (cost.bytes) parts.push(`${bytes(cost.bytes)} of a warp`);
  if (cost.wavefronts) parts.push(`${counted(cost.wavefronts, "wavefront")} of shared memory`);
  if (cost.ways) parts.push(`${figure(cost.ways)} ${cost.ways === 1 ? "way" : "ways"}`);
  return [...parts, `${counted(cost.registers, "register")} of arrays`].join(", ");
}

/** @type {(Map<number, HTMLElement>)[]} */
let drawn = [];

function drawPanes() {
  drawn = trace.panes.map(() => new Map());
  const shown = trace.panes.map((pane, p) => {
    const inner = make("div");
    const ranges = shownLines(pane);
    if (!ranges.length)
      inner.append(make("div", "gap", "This kernel has no part in this IR."));
    for (const [begin, end] of ranges) {
      if (begin > 0 && ranges.length > 1) inner.append(make("div", "gap", "⋯"));
      for (let n = begin; n < end; n++) {
        const line = codeLine(pane.lines[n], "", isIr(pane.ir));
        line.dataset.line = String(n);
        if (pane.ir === "kernel") {
          addCost(line, n);
          addHazard(line, n);
        }
        drawn[p].set(n, line);
        inner.append(line);
      }
    }
    const code = make("div", "code", "", [inner]);
    code.tabIndex = 0;
    code.dataset.pane = String(p);
    code.setAttribute("aria-label", titleOf(pane.ir));
    const box = make("div", "pane", "", [make("h2", "", titleOf(pane.ir)), code]);
    box.hidden = state.hidden.has(pane.ir);
    box.style.display = box.hidden ? "none" : "";
    box.dataset.ir = pane.ir;
    return box;
  });
  byId("panes").replaceChildren(...shown);
}

/** Lights the images of a line; with -1 none.
 * @param {number} pane @param {number} line @param {boolean} [moves] */
function choose(pane, line, moves = true) {
  for (const lit of document.querySelectorAll(".line.lit, .line.at"))
    if (lit.closest("#panes")) lit.classList.remove("lit", "at");
  [state.pane, state.line] = [pane, line];
  const parts = [];
  if (line >= 0) {
    const found = imagesOf(pane, line);
    found.forEach((lines, p) => {
      const visible = [...lines].filter((n) => drawn[p].has(n)).sort((a, b) => a - b);
      for (const n of visible) drawn[p].get(n)?.classList.add(p === pane ? "at" : "lit");
      if (moves && visible.length && p !== pane) reveal(p, visible[0]);
      const title = titleOf(trace.panes[p].ir);
      const elsewhere = lines.size - visible.length;
      parts.push(
        lines.size === 0
          ? make("span", "none", `${title}: no image`)
          : make("span", "", `${title}: ${counted(lines.size, "line")}`
            + (elsewhere ? ` (${elsewhere} in other kernels)` : "")),
      );
    });
    const kernel = trace.kernels.find((k) => k.name === state.kernel);
    const cost = trace.panes[pane].ir === "kernel" ? kernel?.lines[line] : null;
    if (kernel && cost) parts.push(make("span", "", costText(kernel, cost)));
    if (trace.panes[pane].ir === "kernel")
      parts.push(...hazardsAt(line).map((text) => make("span", "verdict wrong", text)));
    reveal(pane, line);
  } else {
    parts.push(make("span", "none",
      "Click a line, or Tab to a pane and j, k: its images light up. 1–3: views. Esc: none."));
  }
  byId("status").replaceChildren(...parts);
}

/** Frames the images of the line below the pointer; they are not scrolled to.
 * @param {[number, number]?} at */
function touch(at) {
  for (const line of document.querySelectorAll(".line.near")) line.classList.remove("near");
  if (at)
    imagesOf(...at).forEach((lines, p) => {
      for (const n of lines) drawn[p].get(n)?.classList.add("near");
    });
}

/** @param {number} count @param {string} noun */
const counted = (count, noun) =>
  `${count} ${noun}${count === 1 ? "" : noun.endsWith("ch") ? "es" : "s"}`;

/** @param {number} pane @param {number} line */
function reveal(pane, line) {
  const target = drawn[pane].get(line);
  const box = target?.closest(".code");
  if (!target || !box) return;
  const [inside, around] = [target.getBoundingClientRect(), box.getBoundingClientRect()];
  if (inside.top < around.top || inside.bottom > around.bottom)
    box.scrollTop += inside.top - around.top - around.height / 3;
}
