// @ts-check
"use strict";

/** An element of a picture. @param {string} tag @param {Record<string, string | number>} given
 * @param {string} [text] @returns {SVGElement} */
function draft(tag, given, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(given)) made.setAttribute(name, String(value));
  if (text) made.textContent = text;
  return made;
}

/** @param {number} width @param {number} height @param {string} label
 * @param {SVGElement[]} parts */
function picture(width, height, label, parts) {
  const given = { viewBox: `0 0 ${width} ${height}`, width, height, role: "img" };
  const made = draft("svg", { ...given, "aria-label": label });
  made.append(...parts);
  return made;
}

/** A map of words and banks for each access of shared memory, a row for each phase: the lanes that
 * are served together. Accesses that are alike are drawn once. @param {Kernel} kernel */
function banksPicture(kernel) {
  if (!kernel.banks.length) return [];
  /** @type {Map<string, Bank[]>} */
  const alike = new Map();
  for (const bank of kernel.banks) {
    const key = JSON.stringify([bank.text, bank.lanes.map((byte) => byte - bank.lanes[0])]);
    alike.set(key, [...(alike.get(key) ?? []), bank]);
  }
  const said = "In the first iteration of all loops. A row is of the lanes that are served together: "
    + "a bank has the number of the first lane that it serves, and is darker for each word more.";
  return [make("h3", "", "Shared memory: the banks that warp 0 meets"), make("p", "", said),
    ...[...alike.values()].flatMap(bankPicture)];
}

/** @param {Bank[]} banks accesses that are alike @returns {Node[]} */
function bankPicture(banks) {
  const [bank] = banks;
  const ways = `${figure(bank.ways)} ${bank.ways === 1 ? "way" : "ways"}`;
  const lines = banks.map((b) => b.line + 1).join(", ");
  const text = `${bank.text}: ${ways}, ${banks.length > 1 ? "lines" : "line"} ${lines} of the Kernel IR`;
  const [wide, tall] = [20, 14];
  const together = Math.min(32, Math.floor(128 / bank.width));
  const rows = Math.ceil(bank.lanes.length / together);
  /** @type {SVGElement[]} */
  const cells = [];
  for (let row = 0; row < rows; row++) {
    for (let n = 0; n < 32; n++)
      cells.push(draft("rect", { x: n * wide, y: row * tall, width: wide, height: tall, class: "cell" }));
    /** @type {Map<number, {words: Set<number>, lanes: number[]}>} */
    const met = new Map();
    for (let lane = row * together; lane < Math.min((row + 1) * together, bank.lanes.length); lane++) {
      const byte = bank.lanes[lane];
      for (let word = Math.floor(byte / 4); word < (byte + bank.width) / 4; word++) {
        const found = met.get(word % 32) ?? { words: new Set(), lanes: [] };
        found.words.add(word);
        found.lanes.push(lane);
        met.set(word % 32, found);
      }
    }
    for (const [number, { words, lanes }] of met) {
      const place = { x: number * wide, y: row * tall, width: wide, height: tall, class: "heat" };
      const cell = draft("rect", { ...place, "fill-opacity": 1 - 0.75 ** words.size });
      cell.append(draft("title", {}, `bank ${number}: ${counted(words.size, "word")}, lanes `
        + [...new Set(lanes)].join(", ")));
      const at = { x: (number + 0.5) * wide, y: (row + 1) * tall - 4, class: "lane" };
      cells.push(cell, draft("text", at, String(lanes[0])));
    }
  }
  return [make("p", "", text), picture(32 * wide + 1, rows * tall + 1, text, cells)];
}

/** @param {Kernel} kernel */
function checkedList(kernel) {
  const checked = kernel.checked;
  const made = [make("h3", "", `Checked: ${checked?.answer ?? "not asked for"}`)];
  made.push(trace.validated
    ? make("p", trace.passes.some((pass) => pass.verdict?.wrong) ? "verdict wrong" : "",
      `Validated: ${trace.validated}`)
    : make("p", "c", "Results between passes were not compared: dlc trace --validate does that."));
  if (!checked) return [...made, make("p", "c", "Not checked for races: dlc trace --check does that.")];
  for (const note of checked.notes) made.push(make("p", "", note));
  for (const hazard of checked.hazards) {
    const link = make("button", "hazard", `line ${hazard.line + 1}: ${hazard.text}`);
    link.addEventListener("click", () => showLine("kernel", hazard.line));
    made.push(make("p", "", "", [link]));
    for (const access of hazard.accesses) {
      const line = make("button", "access", access.text);
      line.addEventListener("click", () => showLine("kernel", access.line));
      made.push(make("p", "", "", [line]));
    }
  }
  return made;
}

/** Goes to a line of an IR. @param {string} ir @param {number} line */
function showLine(ir, line) {
  openView("irs");
  choose(trace.panes.findIndex((pane) => pane.ir === ir), line);
}

/** Operations a second over operations a byte, both as powers of ten. @returns {Node[]} */
function roofline() {
  const known = trace.kernels.flatMap((k) => (k.cost && k.cost.flops > 0 && k.cost.bytes > 0
    ? [{ name: k.name, x: Math.log10(k.cost.flops / k.cost.bytes),
      y: Math.log10(k.cost.flops / k.cost.seconds) }] : []));
  if (!known.length) return [];
  const { roofs, memory_bandwidth: bandwidth, name } = trace.chip;
  const tops = Object.entries(roofs).map(([what, flops]) => ({ what, y: Math.log10(flops) }));
  const [top, band] = [Math.max(...tops.map((t) => t.y)), Math.log10(bandwidth)];
  const knee = top - band;
  const left = Math.floor(Math.min(...known.map((k) => k.x), knee) - 0.5);
  const right = Math.ceil(Math.max(...known.map((k) => k.x), knee) + 0.5);
  const low = Math.floor(Math.min(...known.map((k) => k.y), tops[0].y - 2));
  const [width, height, margin] = [560, 260, 40];
  const [wide, tall] = [width - margin - 10, height - margin - 10];
  const x = (/** @type {number} */ v) => margin + ((v - left) / (right - left)) * wide;
  const y = (/** @type {number} */ v) => 10 + ((top + 0.3 - v) / (top + 0.3 - low)) * tall;
  const slope = low - band;
  const begin = slope > left ? [slope, low] : [left, band + left];
  const line = (/** @type {number[][]} */ points) => draft("polyline", {
    points: points.map(([a, b]) => `${x(a)},${y(b)}`).join(" "), class: "axis",
  });
  const parts = [line([begin, [knee, top]])];
  for (const roof of tops) {
    parts.push(line([[roof.y - band, roof.y], [right, roof.y]]));
    const place = { x: x(right) - 4, y: y(roof.y) - 3, "text-anchor": "end" };
    parts.push(draft("text", place, roof.what));
  }
  for (let n = left; n <= right; n++)
    parts.push(draft("text", { x: x(n), y: height - 22, "text-anchor": "middle" }, `1e${n}`));
  for (let n = low; n <= top; n++) parts.push(draft("text", { x: 0, y: y(n) + 4 }, `1e${n}`));
  parts.push(draft("text", { x: width / 2, y: height - 6, "text-anchor": "middle" },
    "operations for each byte of memory (operations a second upwards)"));
  for (const kernel of known) {
    const at = kernel.name === state.kernel ? "dot at" : "dot";
    const dot = draft("circle", { cx: x(kernel.x), cy: y(kernel.y), r: 5, class: at });
    dot.append(draft("title", {}, kernel.name));
    parts.push(dot);
  }
  const text = `Roofline of ${name}: ${counted(known.length, "kernel")} as predicted`;
  return [make("h3", "", text), picture(width, height, text, parts)];
}
