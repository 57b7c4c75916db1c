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

/** The tile of a block: each element in the colour of its thread, those of thread 0 framed.
 * @param {Kernel} kernel @returns {Node[]} */
function ownersPicture(kernel) {
  const owners = kernel.owners;
  if (!owners || !owners.threads.length) return [make("p", "c", "No picture of its tile: it is "
    + "too large, or which thread stores what depends on data.")];
  const [rows, columns] = [owners.threads.length, owners.threads[0].length];
  const side = Math.max(3, Math.min(16, Math.floor(560 / Math.max(rows, columns))));
  const cells = owners.threads.flatMap((row, y) => row.map((thread, x) => {
    const place = { x: x * side, y: y * side, width: side, height: side };
    const kind = thread === 0 ? "own" : "cell";
    const cell = draft("rect", { ...place, class: kind, "data-thread": thread });
    if (thread > 0) cell.style.fill = `hsl(${(thread * 137.5) % 360} 35% 60% / .45)`;
    cell.append(draft("title", {}, thread < 0
      ? "stored by no thread of this block" : `thread ${thread} stores [${y}, ${x}]`));
    return cell;
  }));
  const own = owners.threads.flat().filter((thread) => thread === 0).length;
  const part = rows < owners.block[0] || columns < owners.block[1]
    ? ` (its first ${rows} × ${columns} are drawn)` : "";
  const text = `Block 0 of ${kernel.grid} stores ${owners.block.join(" × ")} elements${part} of `
    + `${owners.name}, which has ${owners.shape.join(" × ")} in its last dimensions; `
    + `the ${counted(own, "element")} of thread 0 that are drawn stand out.`;
  return [make("h3", "", "Who stores what"), make("p", "", text),
    picture(columns * side, rows * side, text, cells)];
}

/** The blocks of a grid in waves, a row for each: as many as the SMs hold at once.
 * @param {Kernel} kernel @returns {Node[]} */
function wavesPicture(kernel) {
  const { sms } = trace.chip;
  const once = sms * kernel.blocks_per_sm;
  const title = make("h3", "", "Waves of blocks");
  if (once === 0) return [title, make("p", "", "A block does not fit on an SM.")];
  const waves = Math.ceil(kernel.grid / once);
  const last = kernel.grid - (waves - 1) * once;
  const text = `${counted(kernel.grid, "block")}, ${kernel.blocks_per_sm} at once on each of `
    + `${sms} SMs: ${counted(waves, "wave")}, the last with ${counted(last, "block")} of ${once}`;
  const [width, side, most] = [528, 10, 12];
  const rows = [];
  for (let wave = 0; wave < Math.min(waves, most); wave++) {
    const share = (wave + 1 < waves ? once : last) / once;
    const place = { x: 0, y: wave * side, height: side - 2 };
    rows.push(draft("rect", { ...place, width, class: "cell" }));
    rows.push(draft("rect", { ...place, width: width * share, class: "dot" }));
  }
  const more = waves > most ? `; the first ${most} are drawn` : "";
  return [title, make("p", "", text + more), picture(width, rows.length * side / 2, text, rows)];
}

/** A map of lanes and banks for each access of shared memory. @param {Kernel} kernel */
function banksPicture(kernel) {
  if (!kernel.banks.length) return [];
  const made = [make("h3", "", "Shared memory: which bank each lane of warp 0 begins in")];
  for (const bank of kernel.banks) {
    const ways = `${figure(bank.ways)} ${bank.ways === 1 ? "way" : "ways"}`;
    const text = `${bank.text}: ${ways}, line ${bank.line + 1} of the Kernel IR`;
    const cells = [];
    for (let n = 0; n < 32; n++)
      cells.push(draft("rect", { x: n * 12, y: 0, width: 12, height: 12, class: "cell" }));
    /** @type {Map<number, Set<number>>} */
    const words = new Map();
    bank.lanes.forEach((byte) => {
      for (let at = byte; at < byte + bank.width; at += 4) {
        const word = Math.floor(at / 4);
        words.set(word % 32, (words.get(word % 32) ?? new Set()).add(word));
      }
    });
    const most = Math.max(...[...words.values()].map((found) => found.size), 1);
    for (const [number, found] of words) {
      const place = { x: number * 12, y: 0, width: 12, height: 12, class: "heat" };
      const cell = draft("rect", { ...place, "fill-opacity": found.size / most });
      cell.append(draft("title", {}, `bank ${number}: ${counted(found.size, "word")}`));
      cells.push(cell);
    }
    made.push(make("p", "", text), /** @type {any} */ (picture(384, 12, text, cells)));
  }
  return made;
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
