// @ts-check
"use strict";

/** @param {number} value */
const figure = (value) => (value >= 1000 ? value.toFixed(0) : String(+value.toPrecision(3)));

function drawKernels() {
  const parts = [];
  const chosen = trace.kernels.find((kernel) => kernel.name === state.kernel);
  if (chosen) {
    parts.push(make("p", "", `does ${chosen.ops.join(", ") || "nothing of the program's own"}`));
    parts.push(make("p", "schedule", chosen.schedule));
    const axes = chosen.axes.map((a) => `${a.kind}(%${a.name} in ${a.extent})`).join(" ");
    if (axes) parts.push(make("p", "", axes));
    parts.push(figures("a thread or warp executes", chosen.figures));
    if (Object.keys(chosen.machine).length)
      parts.push(figures("its machine code has", chosen.machine));
    if (chosen.measured && Object.keys(chosen.measured.counters).length)
      parts.push(figures(`counted: ${trace.measured}`, chosen.measured.counters));
    parts.push(...candidatesList(chosen), ...tilePictures(chosen));
    parts.push(...pipelinePicture(chosen), ...fragmentsPicture(chosen));
    parts.push(...banksPicture(chosen), ...costliest(chosen), ...checkedList(chosen));
  }
  parts.push(...memoryPicture(), ...roofline());
  const rows = trace.kernels.map((kernel) => [
    kernel.name, String(kernel.launches), microseconds(kernel.seconds),
    microseconds(kernel.seconds * kernel.launches), String(kernel.grid), String(kernel.block),
    String(kernel.shared_bytes), ...measuredCells(kernel), kernel.ops.slice(0, 4).map((op) => op.split(" ")[1]).join(", "),
  ]);
  parts.push(table(
    ["kernel", "launches", "us each", "us in all", "grid", "block", "shared bytes",
      ...(trace.measured ? ["us measured", "of the estimate"] : []), "operations"],
    rows, rows.findIndex(([name]) => name === state.kernel)));
  parts.push(make("p", "c", trace.measured
    ? `Times are predicted for ${trace.chip.name}; those measured are the mean of a kernel's `
      + `launches: ${trace.measured}.`
    : `Times are predicted for ${trace.chip.name}, not measured: dlc run --trace and `
      + "dlc trace --times show measured ones."));
  byId("costs").replaceChildren(...parts);
}

/** The lines of the Kernel IR that take most of a thread's issue slots, each a way to its line.
 * @param {Kernel} kernel @returns {Node[]} */
function costliest(kernel) {
  const texts = trace.panes.find((pane) => pane.ir === "kernel")?.lines ?? [];
  const found = Object.entries(kernel.lines).map(([n, cost]) => ({ n: Number(n), cost }));
  const most = found.sort((a, b) => b.cost.slots - a.cost.slots || a.n - b.n).slice(0, 12);
  if (!most.length) return [];
  const rows = most.map(({ n, cost }) => [
    String(n + 1), (100 * shareOf(kernel, cost)).toFixed(1), figure(cost.slots),
    figure(cost.bytes), figure(cost.wavefronts), cost.ways ? figure(cost.ways) : "-",
    String(cost.registers), texts[n].trim(),
  ]);
  const made = table(["line", "%", "issue slots", "bytes", "wavefronts", "ways", "registers",
    "Kernel IR"], rows);
  made.classList.add("lines");
  [...made.children].slice(1).forEach((row, k) => {
    const link = make("button", "", rows[k][0]);
    link.addEventListener("click", () => showLine("kernel", most[k].n));
    row.children[0].replaceChildren(link);
    row.setAttribute("title", rows[k][7]);
  });
  return [make("h3", "", "Where the issue slots go"), make("p", "", "Of a thread the issue slots; of "
    + "a warp bytes of global memory, in sectors, and wavefronts of shared memory, with the ways of "
    + "its banks; registers are those of arrays that a thread holds there."), made];
}

/** What was measured of a launch, beside the estimate. @param {Kernel} kernel @returns {string[]} */
function measuredCells(kernel) {
  if (!trace.measured) return [];
  const { measured, seconds } = kernel;
  if (!measured) return ["-", "-"];
  const times = seconds > 0 ? `${figure(measured.seconds / seconds)} times` : "-";
  return [microseconds(measured.seconds), times];
}

/** Names and values beside each other. @param {string} title @param {Record<string, number | string>} named */
const figures = (title, named) => make("p", "figures", `${title}: `,
  Object.entries(named).filter(([, value]) => value).map(([name, value]) =>
    make("span", "", "", [make("b", "", typeof value === "number" ? figure(value) : value), document.createTextNode(
      ` ${name.replaceAll("_", " ")}`)])));

/** @param {number} seconds */
const microseconds = (seconds) => (seconds < 0 ? "does not fit" : figure(seconds * 1e6));

/** @param {string[]} header @param {string[][]} rows @param {number} [selected] */
function table(header, rows, selected = -1) {
  const isNumber = (/** @type {number} */ c) => rows.every((row) => /^[-\d]/.test(row[c]));
  const numeric = header.map((_, c) => rows.length > 0 && isNumber(c));
  const cell = (/** @type {string} */ tag, /** @type {string} */ text, /** @type {number} */ c) =>
    make(tag, numeric[c] ? "num" : "", text);
  const made = make("table", "", "", [
    make("tr", "", "", header.map((text, c) => cell("th", text, c))),
    ...rows.map((row) => make("tr", "", "", row.map((text, c) => cell("td", text, c)))),
  ]);
  if (selected >= 0) made.children[selected + 1].setAttribute("aria-selected", "true");
  return made;
}
