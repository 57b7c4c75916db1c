// @ts-check
"use strict";

/** @type {Record<string, () => void>} */
const VIEWS = { irs: drawPanes, passes: drawSteps, kernels: drawKernels };
const NAMES = { irs: "1 IRs", passes: "2 Passes", kernels: "3 Kernels" };

function draw() {
  for (const name of Object.keys(VIEWS)) {
    byId(name).hidden = name !== state.tab;
    byId(`tab-${name}`).setAttribute("aria-selected", String(name === state.tab));
  }
  const kernel = trace.kernels.find((k) => k.name === state.kernel);
  byId("facts").textContent = kernel
    ? `grid ${kernel.grid} × ${kernel.block} threads, ${kernel.shared_bytes} B shared, `
      + `${microseconds(kernel.seconds)} us predicted on ${trace.chip.name}, `
      + (kernel.measured ? `${microseconds(kernel.measured.seconds)} us measured, ` : "")
      + `launched ${counted(kernel.launches, "time")}`
    : `${counted(trace.kernels.length, "kernel")} for ${trace.chip.name}`;
  VIEWS[state.tab]();
  if (state.tab === "irs") choose(state.pane, -1);
  else byId("status").textContent = state.tab === "passes" ? "j, k: steps. 1–3: views." : "";
}

/** @param {string} tab */
function openView(tab) {
  state.tab = tab;
  draw();
}

/** @param {string} name */
function chooseKernel(name) {
  state.kernel = name;
  /** @type {HTMLSelectElement} */ (byId("kernel")).value = name;
  draw();
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target instanceof HTMLSelectElement) return;
  const tab = Object.keys(VIEWS)[Number(event.key) - 1];
  if (tab) return openView(tab);
  if (event.key === "Escape") return state.tab === "irs" ? choose(state.pane, -1) : openView("irs");
  /** @type {Record<string, number>} */
  const moves = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 };
  if (state.tab === "passes") Object.assign(moves, { ArrowRight: 1, ArrowLeft: -1 });
  const move = moves[event.key];
  if (!move) return;
  if (state.tab === "passes") {
    chooseStep(Math.min(state.step + move, trace.passes.length - 1));
    event.preventDefault();
  } else if (state.tab === "irs") {
    const focused = document.activeElement?.closest(".code");
    const pane = focused instanceof HTMLElement ? Number(focused.dataset.pane) : state.pane;
    const lines = [...drawn[pane].keys()];
    const at = pane === state.pane && state.line >= 0 ? lines.indexOf(state.line) + move : 0;
    if (lines.length) choose(pane, lines[Math.min(Math.max(at, 0), lines.length - 1)]);
    event.preventDefault();
  }
}

/** The line of a pane at which an event is. @param {Event} event @returns {[number, number]?} */
function lineAt(event) {
  const line = event.target instanceof Element ? event.target.closest("#panes .line") : null;
  const code = line?.closest(".code");
  if (!(line instanceof HTMLElement) || !(code instanceof HTMLElement)) return null;
  return [Number(code.dataset.pane), Number(line.dataset.line)];
}

function setUp() {
  const kernels = byId("kernel");
  const options = [["", "outside of kernels"], ...trace.kernels.map((k) => [k.name, k.name])];
  for (const [value, text] of options) {
    const option = make("option", "", text);
    option.setAttribute("value", value);
    kernels.append(option);
  }
  state.kernel = trace.shown;
  /** @type {HTMLSelectElement} */ (kernels).value = state.kernel;
  kernels.addEventListener("change",
    () => chooseKernel(/** @type {HTMLSelectElement} */ (kernels).value));
  for (const [name, text] of Object.entries(NAMES)) {
    const tab = make("button", "", text);
    tab.id = `tab-${name}`;
    tab.setAttribute("role", "tab");
    tab.addEventListener("click", () => openView(name));
    byId("tabs").append(tab);
  }
  for (const { ir } of trace.panes) {
    const toggle = make("button", "", titleOf(ir));
    toggle.setAttribute("aria-pressed", String(!state.hidden.has(ir)));
    toggle.addEventListener("click", () => {
      if (!state.hidden.delete(ir)) state.hidden.add(ir);
      toggle.setAttribute("aria-pressed", String(!state.hidden.has(ir)));
      for (const box of document.querySelectorAll(".pane"))
        if (box instanceof HTMLElement && box.dataset.ir === ir)
          box.style.display = state.hidden.has(ir) ? "none" : "";
    });
    byId("shown").append(toggle);
  }
  byId("panes").addEventListener("click", (event) => {
    const at = lineAt(event);
    if (at) choose(...at);
  });
  byId("panes").addEventListener("mouseover", (event) => touch(lineAt(event)));
  byId("panes").addEventListener("mouseleave", () => touch(null));
  byId("steps").addEventListener("click", (event) => {
    const item = event.target instanceof Element ? event.target.closest("li") : null;
    if (item) chooseStep(Number(item.dataset.step));
  });
  slider().addEventListener("input", () => chooseStep(Number(slider().value)));
  byId("whole").addEventListener("change", () => chooseStep(state.step));
  document.addEventListener("keydown", pressed);
  draw();
}

setUp();
