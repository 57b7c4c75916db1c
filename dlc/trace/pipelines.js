// @ts-check
"use strict";

/** The slots of a kernel's rings from top to bottom, the first turns of its loop from left to
 * right: each chunk from when it is requested to when it is waited for, and from there until its
 * slot is free. @param {Kernel} kernel @returns {Node[]} */
function pipelinePicture(kernel) {
  const { pipeline } = kernel;
  if (!pipeline) return [];
  const [side, left, gap] = [15, 90, 6];
  const scale = Math.min(90, 840 / Math.max(pipeline.end, 1));
  /** @type {SVGElement[]} */
  const parts = [];
  /** @param {number} from @param {number} to @param {number} y @param {string} kind
   * @param {string} said @param {string} [text] */
  const bar = (from, to, y, kind, said, text = "") => {
    const x = left + from * scale;
    const place = { x, y, width: Math.max((to - from) * scale - 1, 1), height: side - 2 };
    const made = draft("rect", { ...place, class: kind });
    made.append(draft("title", {}, said));
    parts.push(made);
    if (text) parts.push(draft("text", { x: x + 3, y: y + side - 5 }, text));
  };
  let top = 0;
  for (const ring of pipeline.rings) {
    parts.push(draft("text", { x: 0, y: top + side - 4 }, ring.name));
    for (let slot = 0; slot < ring.depth; slot++)
      bar(0, pipeline.end, top + slot * side, "cell", `slot ${slot} of ${ring.name}`);
    for (const stay of pipeline.stays.filter((s) => s.ring === ring.name)) {
      const y = top + stay.slot * side;
      const taken = stay.acquired < 0 ? pipeline.end : stay.acquired;
      const free = stay.released < 0 ? pipeline.end : stay.released;
      const chunk = `chunk ${stay.chunk} of ${ring.name}, slot ${stay.slot}`;
      bar(stay.filled, taken, y, "asked", `${chunk}: requested, on its way`);
      if (stay.acquired >= 0) bar(taken, free, y, "used", `${chunk}: in use`, String(stay.chunk));
    }
    top += ring.depth * side + gap;
  }
  const text = `${pipeline.rings.map((ring) => `${ring.name} has ${counted(ring.depth, "slot")} for `
    + `${counted(ring.chunks, "chunk")}${ring.kind ? ` (${ring.kind})` : ""}`).join("; ")}. `
    + `The first ${counted(pipeline.turns, "turn")}, in the order of the operations and not to `
    + "scale: a chunk is on its way from its request to the wait (light), then in use.";
  return [make("h3", "", "Rings through time"), make("p", "", text),
    picture(Math.ceil(left + pipeline.end * scale), Math.max(top - gap, 1), text, parts)];
}
