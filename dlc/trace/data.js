// @ts-check
"use strict";
/**
 * The data are those of dlc/trace/model.py: lines count from 0, and the section "" is what stands
 * outside of kernels.
 * @typedef {{ir: string, lines: string[], links: number[][],
 *   sections: Record<string, [number, number]>}} Pane
 * @typedef {{begin: number, end: number, lines: string[]}} Edit
 * @typedef {{kernel: string, text: string, declined: boolean}} Said
 * @typedef {{name: string, summary: string, seconds: number, remarks: Said[],
 *   edits: Record<string, Edit[]>, verdict: {text: string, wrong: boolean} | null}} Pass
 * @typedef {{kind: string, name: string, extent: number}} Axis
 * @typedef {{name: string, launches: number, ops: string[], schedule: string, grid: number,
 *   block: number, shared_bytes: number, seconds: number, figures: Record<string, number>,
 *   machine: Record<string, number>, lines: Record<string, LineCost>, blocks_per_sm: number,
 *   axes: Axis[], owners: Owners | null, pipeline: Pipeline | null, banks: Bank[],
 *   products: Product[], cost: Cost | null, checked: Checked | null,
 *   candidates: Candidates | null, measured: Measured | null}} Kernel
 * @typedef {{seconds: number, launches: number,
 *   counters: Record<string, number | string>}} Measured
 * @typedef {{number: number, text: string, estimate: number, seconds: number, again: boolean,
 *   refusal: string}} Tried
 * @typedef {{chosen: string, lost: string[], objective: string, tried: Tried[]}} Candidates
 * @typedef {{slots: number, bytes: number, wavefronts: number, ways: number,
 *   registers: number}} LineCost
 * @typedef {{name: string, columns: number, lanes: number[][], places: number[][]}} Fragment
 * @typedef {{shape: string, line: number, ops: number, lanes: number, fragments: Fragment[],
 *   shared: string[]}} Product
 * @typedef {{name: string, shape: number[], block: number[], threads: number[][],
 *   places: number[][], held: number, number: number, corners: [number, number, number][]}} Owners
 * @typedef {{ring: string, chunk: number, slot: number, filled: number, acquired: number,
 *   released: number}} Stay
 * @typedef {{turns: number, end: number, stays: Stay[],
 *   rings: {name: string, depth: number, chunks: number, kind: string}[]}} Pipeline
 * @typedef {{text: string, line: number, ways: number, lanes: number[], width: number}} Bank
 * @typedef {{flops: number, bytes: number, seconds: number}} Cost
 * @typedef {{line: number, text: string}} Access
 * @typedef {{answer: string, notes: string[],
 *   hazards: {line: number, text: string, accesses: Access[]}[]}} Checked
 * @typedef {{name: string, offset: number, bytes: number, first: number, last: number}} Block
 * @typedef {{launches: string[], workspace: number, results: number, blocks: Block[]}} Memory
 * @typedef {{title: string, version: string,
 *   chip: {name: string, sms: number, memory_bandwidth: number, roofs: Record<string, number>},
 *   panes: Pane[], passes: Pass[], kernels: Kernel[], memory: Memory | null,
 *   shown: string, validated: string, measured: string, grammar: Grammar}} Trace
 * @typedef {{operations: string[], attributes: string[], keywords: string[]}} Grammar
 */

/** @param {string} id @returns {HTMLElement} */
function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no ${id}`);
  return found;
}

/** An element with classes and a text; children are added in order.
 * @param {string} tag @param {string} [classes] @param {string} [text]
 * @param {Node[]} [children] @returns {HTMLElement} */
function make(tag, classes = "", text = "", children = []) {
  const made = document.createElement(tag);
  if (classes) made.className = classes;
  if (text) made.textContent = text;
  made.append(...children);
  return made;
}

/** @type {Trace} */
const trace = JSON.parse(byId("data").textContent || "");
/** @type {Record<string, string>} */
const TITLES = {
  python: "Source", torch: "1 Torch IR", tensor: "2 Tensor IR", loop: "3 Loop IR",
  tile: "4 Tile IR", kernel: "5 Kernel IR", cuda: "6 CUDA", sass: "SASS",
};
/** @param {string} ir */
const titleOf = (ir) => TITLES[ir] ?? ir;
/** @param {string} ir */
const isIr = (ir) => !["python", "cuda", "sass"].includes(ir);
/** For each pane, for each of its lines, the lines of the next pane made of it. */
const images = trace.panes.map((pane, p) => {
  /** @type {Map<number, number[]>} */
  const found = new Map();
  trace.panes[p + 1]?.links.forEach((from, line) => {
    for (const origin of from) found.set(origin, [...(found.get(origin) ?? []), line]);
  });
  return found;
});
const state = {
  kernel: "", tab: "irs", pane: 0, line: -1, step: 0,
  hidden: new Set(trace.panes.length > 6 ? ["python"] : []),
};

/** The lines of every pane that come from a line, or that it comes from.
 * @param {number} pane @param {number} line @returns {Set<number>[]} */
function imagesOf(pane, line) {
  /** @type {Set<number>[]} */
  const found = trace.panes.map(() => new Set());
  found[pane].add(line);
  for (let p = pane; p > 0; p--)
    for (const n of found[p]) for (const from of trace.panes[p].links[n]) found[p - 1].add(from);
  for (let p = pane; p + 1 < trace.panes.length; p++)
    for (const n of found[p]) for (const to of images[p].get(n) ?? []) found[p + 1].add(to);
  return found;
}

// Text.

/** The class of each word of the dialects. @type {Map<string, string>} */
const WORDS = new Map([
  ...trace.grammar.keywords.map((word) => /** @type {[string, string]} */ ([word, "k"])),
  ...trace.grammar.operations.map((word) => /** @type {[string, string]} */ ([word, "o"])),
  ...trace.grammar.attributes.map((word) => /** @type {[string, string]} */ ([word, "a"])),
]);
const TOKEN = /(\/\/.*|#\s.*)|("(?:[^"\\]|\\.)*")|(%[\w$.]+)|([#!]?\b[a-z_]\w*(?:\.\w+)*\b)/g;
const CLASSES = ["c", "s", "n"];

/** Adds a text to an element, its comments, strings and values coloured, and in IRs the words of
 * their dialects.
 * @param {HTMLElement} target @param {string} text @param {boolean} [inIr] */
function addCode(target, text, inIr = true) {
  let at = 0;
  for (const found of text.matchAll(TOKEN)) {
    const kind = CLASSES[found.slice(1).findIndex((group) => group !== undefined)];
    const known = kind ?? (inIr ? WORDS.get(found[0]) : undefined);
    if (!known) continue;
    target.append(text.slice(at, found.index), make("span", known, found[0]));
    at = found.index + found[0].length;
  }
  target.append(text.slice(at));
}

/** @param {string} text @param {string} [classes] @param {boolean} [inIr] */
function codeLine(text, classes = "", inIr = true) {
  const line = make("div", `line ${classes}`);
  addCode(line, text, inIr);
  return line;
}
