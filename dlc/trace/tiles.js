// @ts-check
"use strict";

/** Colours that differ from one number to the next. @param {number} number */
const colourOf = (number) => `hsl(${(number * 137.5) % 360} 35% 60% / .45)`;

/** How a kernel's output is cut: in blocks, and the tile of a block in threads and their elements.
 * @param {Kernel} kernel @returns {Node[]} */
function tilePictures(kernel) {
  const { owners } = kernel;
  if (!owners || !owners.threads.length) return [make("p", "c", "No picture of its tile: it is "
    + "too large, or which thread stores what depends on data."), ...wavesPicture(kernel)];
  return [...blocksPicture(kernel, owners), ...wavesPicture(kernel), ...ownersPicture(owners)];
}

/** The output, cut in the tiles of blocks, each with the colour of the wave that its block is in.
 * @param {Kernel} kernel @param {Owners} owners @returns {Node[]} */
function blocksPicture(kernel, owners) {
  const [rows, columns] = owners.shape;
  const [tall, wide] = owners.block;
  const [across, down] = [Math.min(560 / columns, 16), Math.min(280 / rows, 16)];
  const thin = Math.min(wide * across, tall * down) < 5 ? " thin" : "";
  const once = Math.max(trace.chip.sms * kernel.blocks_per_sm, 1);
  const cells = owners.corners.map(([number, row, column]) => {
    const wave = Math.floor(number / once);
    const stands = number === owners.number;
    const cell = draft("rect", {
      x: column * across, y: row * down, class: (stands ? "own" : "cell") + thin,
      width: Math.max(Math.min(wide, columns - column), 0) * across,
      height: Math.max(Math.min(tall, rows - row), 0) * down, "data-block": number,
    });
    if (!stands) cell.style.fill = colourOf(wave + 1);
    cell.append(draft("title", {}, `block ${number}, wave ${wave + 1}: from [${row}, ${column}] on`));
    return cell;
  });
  const drawn = owners.corners.length;
  const text = `${owners.name}, ${rows} × ${columns} in its last dimensions, is cut in tiles of `
    + `${tall} × ${wide}, one for each of ${counted(kernel.grid, "block")}`
    + (drawn < kernel.grid ? `; ${drawn} are drawn, those of the first matrix` : "")
    + `. A wave has a colour; block ${owners.number} stands out.`;
  return [make("h3", "", "Blocks of the output"), make("p", "", text),
    picture(columns * across + 1, rows * down + 1, text, cells)];
}

/** The tile of a block: each element in the colour of its thread, those of the chosen one framed.
 * @param {Owners} owners @returns {Node[]} */
function ownersPicture(owners) {
  const [rows, columns] = [owners.threads.length, owners.threads[0].length];
  const side = Math.max(3, Math.min(16, Math.floor(560 / Math.max(rows, columns))));
  const last = Math.max(...owners.threads.flat());
  const cells = owners.threads.flatMap((row, y) => row.map((thread, x) => {
    const place = { x: x * side, y: y * side, width: side, height: side };
    const cell = draft("rect", { ...place, class: "cell", "data-thread": thread });
    if (thread >= 0) cell.style.fill = colourOf(thread);
    cell.append(draft("title", {}, thread < 0 ? "stored by no thread of this block"
      : `thread ${thread} stores [${y}, ${x}], its element ${owners.places[y][x]} of ${owners.held}`));
    return cell;
  }));
  const part = rows < owners.block[0] || columns < owners.block[1]
    ? ` (its first ${rows} × ${columns} are drawn)` : "";
  const text = `Block ${owners.number} stores ${owners.block.join(" × ")} elements${part}, `
    + `each thread ${counted(owners.held, "element")}; those that are drawn of the chosen one stand out.`;
  const drawing = picture(columns * side, rows * side, text, cells);
  const told = make("span", "told");
  const thread = /** @type {HTMLInputElement} */ (make("input"));
  Object.assign(thread, { type: "range", min: "0", max: String(last), value: "0" });
  const show = () => {
    const own = cells.filter((cell) => {
      cell.classList.toggle("own", cell.dataset.thread === thread.value);
      return cell.dataset.thread === thread.value;
    });
    told.textContent = ` ${thread.value}: ${counted(own.length, "element")} drawn`;
  };
  thread.addEventListener("input", show);
  drawing.addEventListener("click", (event) => {
    const cell = event.target instanceof Element ? event.target.closest("[data-thread]") : null;
    if (!cell || Number(cell.getAttribute("data-thread")) < 0) return;
    thread.value = cell.getAttribute("data-thread") ?? "0";
    show();
  });
  show();
  return [make("h3", "", "Who stores what"), make("p", "", text),
    make("label", "threads", "thread ", [thread, told]), drawing];
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
    const filled = draft("rect", { ...place, width: width * share, class: "cell" });
    filled.style.fill = colourOf(wave + 1);
    rows.push(filled);
  }
  const more = waves > most ? `; the first ${most} are drawn` : "";
  return [title, make("p", "", text + more), picture(width, rows.length * side / 2, text, rows)];
}
