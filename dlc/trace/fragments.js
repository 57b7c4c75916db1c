// @ts-check
"use strict";

/** For each product of tensor cores the matrices that lanes hold, A left of the sums and B above
 * them, of a warpgroup the sums: each element has the number and the colour of the lane that holds
 * it. What a chosen lane holds stands out.
 * @param {Kernel} kernel @returns {Node[]} */
function fragmentsPicture(kernel) {
  if (!kernel.products.length) return [];
  return [make("h3", "", "Fragments of tensor cores"), ...kernel.products.flatMap(productPicture)];
}

/** @param {Product} product @returns {Node[]} */
function productPicture(product) {
  const [wide, tall, gap, label] = [22, 15, 26, 16];
  const by = Object.fromEntries(product.fragments.map((f) => [f.name, f]));
  const { A: a, B: b, C: c } = by;
  const [left, top] = a
    ? [a.lanes[0].length * wide + gap, b.lanes.length * tall + 2 * label + 4] : [0, label];
  const places = /** @type {[Fragment, number, number][]} */ (
    [[a, 0, top], [b, left, label], [c, left, top]].filter(([fragment]) => fragment));
  const who = product.lanes > 32 ? "thread" : "lane";
  /** @type {SVGElement[]} */
  const parts = [];
  for (const [fragment, x, y] of places) {
    const drawn = fragment.lanes[0].length;
    const name = `${fragment.name} ${fragment.lanes.length} × ${fragment.columns}`
      + (drawn < fragment.columns ? `: its first ${drawn} columns, the others follow alike` : "");
    parts.push(draft("text", { x, y: y - 4 }, name));
    fragment.lanes.forEach((row, r) => row.forEach((lane, col) => {
      const place = { x: x + col * wide, y: y + r * tall, width: wide, height: tall };
      const cell = draft("rect", { ...place, class: "cell", "data-lane": lane });
      cell.style.fill = laneColour(lane);
      const at = `${fragment.name}[${r}, ${col}]`;
      cell.append(draft("title", {},
        `${who} ${lane} holds ${at} at place ${fragment.places[r][col]} of its vector`));
      parts.push(cell, draft("text", {
        x: place.x + wide / 2, y: place.y + tall - 4, class: "lane",
      }, String(lane)));
    }));
  }
  const [width, height] = [left + c.lanes[0].length * wide + 1, top + c.lanes.length * tall + 1];
  const text = `C + A · B, <${product.shape}>: ${counted(product.ops, "operation")} of the Kernel IR, `
    + `the first in line ${product.line + 1}. An element has the number of the ${who} that holds it.`
    + (product.shared.length ? ` In shared memory: ${product.shared.join("; ")}.` : "");
  const drawing = picture(width, height, text, parts);
  const told = make("span", "told");
  const lane = /** @type {HTMLInputElement} */ (make("input"));
  Object.assign(lane, { type: "range", min: "0", max: String(product.lanes - 1), value: "0" });
  const show = () => {
    drawing.querySelectorAll("rect").forEach((cell) => {
      cell.classList.toggle("held", cell.dataset.lane === lane.value);
    });
    told.textContent = ` ${lane.value} holds ${product.fragments.map((f) =>
      `${counted((f.lanes.length * f.columns) / product.lanes, "element")} of ${f.name}`).join(", ")}`;
  };
  lane.addEventListener("input", show);
  drawing.addEventListener("click", (event) => {
    const cell = event.target instanceof Element ? event.target.closest("[data-lane]") : null;
    if (!cell) return;
    lane.value = cell.getAttribute("data-lane") ?? "0";
    show();
  });
  show();
  return [make("p", "", text), make("label", "lanes", `${who} `, [lane, told]), drawing];
}

/** Lanes of a group of four are shades of one hue, the same in each warp. @param {number} lane */
const laneColour = (lane) =>
  `hsl(${(Math.floor(lane / 4) * 45) % 360} 55% 55% / ${0.25 + 0.15 * (lane % 4)})`;
