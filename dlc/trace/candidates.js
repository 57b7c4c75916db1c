// @ts-check
"use strict";

/** Why a kernel has its schedule, and what lost: by the estimate, and in a tuning.
 * @param {Kernel} kernel @returns {Node[]} */
function candidatesList(kernel) {
  const found = kernel.candidates;
  if (!found) return [];
  const made = [make("h3", "", "Candidates"), make("p", "", found.chosen)];
  if (found.lost.length)
    made.push(make("p", "", "rather than"), make("ul", "lost", "", found.lost.map((text) => make("li", "", text))));
  const judged = found.tried.filter((one) => one.seconds >= 0);
  const refused = found.tried.filter((one) => one.seconds < 0);
  if (!found.tried.length) return made;
  const rows = judged.slice(0, 12).map((one) => [
    String(one.number), one.estimate < 0 ? "-" : microseconds(one.estimate),
    microseconds(one.seconds), one.text || "the default schedule",
  ]);
  made.push(make("p", "", `${counted(found.tried.length, "candidate")} tried, `
    + `${found.objective}: ${refused.length} refused; ${rows.length} are listed`));
  const listed = table(["candidate", "estimate us", "us", "instead of the default's"], rows);
  listed.classList.add("lines");
  return [...made, listed, ...scatter(judged), ...refusals(refused)];
}

/** The reasons of refusals with how often each was given. @param {Tried[]} refused @returns {Node[]} */
function refusals(refused) {
  /** @type {Map<string, number>} */
  const reasons = new Map();
  for (const { refusal } of refused) reasons.set(refusal, (reasons.get(refusal) ?? 0) + 1);
  const most = [...reasons].sort((a, b) => b[1] - a[1]).slice(0, 5);
  return most.map(([reason, times]) => make("p", "c", `${times} refused: ${reason}`));
}

/** What was found over what was estimated, both as powers of ten; the default is framed.
 * @param {Tried[]} judged @returns {Node[]} */
function scatter(judged) {
  const known = judged.filter((one) => one.estimate > 0 && one.seconds > 0);
  if (known.length < 2) return [];
  const [width, height, margin] = [420, 220, 46];
  /** @param {number[]} values @param {number} from @param {number} to */
  const scale = (values, from, to) => {
    const logs = values.map(Math.log);
    const [low, high] = [Math.min(...logs), Math.max(...logs)];
    return (/** @type {number} */ v) =>
      from + ((Math.log(v) - low) / Math.max(high - low, 1e-9)) * (to - from);
  };
  const [estimates, times] = [known.map((k) => k.estimate), known.map((k) => k.seconds)];
  const x = scale(estimates, margin + 8, width - 12);
  const y = scale(times, height - 36, 12);
  const axis = `${margin},4 ${margin},${height - 28} ${width - 4},${height - 28}`;
  const parts = [draft("polyline", { points: axis, class: "axis" })];
  for (const one of known) {
    const kind = one.number === 0 ? "dot at" : "dot";
    const dot = draft("circle", { cx: x(one.estimate), cy: y(one.seconds), r: 4, class: kind });
    dot.append(draft("title", {}, `candidate ${one.number}: ${microseconds(one.seconds)} us, `
      + `${microseconds(one.estimate)} us estimated; ${one.text || "the default schedule"}`));
    parts.push(dot);
  }
  /** @param {number} at @param {number} down @param {string} anchor @param {string} text */
  const label = (at, down, anchor, text) =>
    parts.push(draft("text", { x: at, y: down, "text-anchor": anchor }, text));
  label(margin - 4, 16, "end", microseconds(Math.max(...times)));
  label(margin - 4, height - 32, "end", microseconds(Math.min(...times)));
  label(margin + 8, height - 14, "middle", microseconds(Math.min(...estimates)));
  label(width - 12, height - 14, "end", microseconds(Math.max(...estimates)));
  const text = `us found (up) over us estimated, ${counted(known.length, "candidate")}`;
  label(width / 2, height - 2, "middle", text);
  return [picture(width, height, text, parts)];
}
