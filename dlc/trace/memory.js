// @ts-check
"use strict";

/** The launches of a call from left to right, and below them the workspace, byte 0 at the top:
 * each tensor from the launch that uses it first to the last one. @returns {Node[]} */
function memoryPicture() {
  const memory = trace.memory;
  if (!memory) return [];
  const [width, tall, top] = [940, 200, 14];
  const step = Math.min(40, width / memory.launches.length);
  const parts = memory.launches.map((name, n) => {
    const kind = name === state.kernel ? "dot at" : "dot";
    const place = { x: n * step, y: 0, width: Math.max(step - 1, 1), height: top - 4 };
    const mark = draft("rect", { ...place, class: kind });
    mark.append(draft("title", {}, `launch ${n + 1}: ${name}`));
    mark.addEventListener("click", () => chooseKernel(name));
    return mark;
  });
  const scale = tall / Math.max(memory.workspace, 1);
  memory.blocks.forEach((block, n) => {
    const cell = draft("rect", {
      x: block.first * step, width: (block.last - block.first + 1) * step - 1,
      y: top + block.offset * scale, height: Math.max(block.bytes * scale, 1), class: "cell",
    });
    cell.style.fill = `hsl(${(n * 137.5) % 360} 35% 60% / .45)`;
    cell.append(draft("title", {}, `${block.name}: ${bytes(block.bytes)} at ${block.offset}, `
      + `launches ${block.first + 1} to ${block.last + 1}`));
    parts.push(cell);
  });
  const sum = memory.blocks.reduce((all, block) => all + block.bytes, 0);
  const text = `${counted(memory.launches.length, "launch")}; `
    + `${counted(memory.blocks.length, "tensor")} of ${bytes(sum)} between them in a workspace of `
    + `${bytes(memory.workspace)}; ${bytes(memory.results)} of results`;
  const height = memory.blocks.length ? top + tall : top;
  const drawing = picture(Math.ceil(memory.launches.length * step), height, text, parts);
  return [make("h3", "", "Launches and memory"), make("p", "", text), drawing];
}

/** @param {number} size */
const bytes = (size) => {
  const power = Math.min(Math.floor(Math.log10(Math.max(size, 1)) / 3), 3);
  return `${figure(size / 1000 ** power)} ${["B", "kB", "MB", "GB"][power]}`;
};
