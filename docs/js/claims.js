/* The chart of verdicts on the page of claims filters its tables. Without this script the page shows all claims. */
(() => {
  "use strict";
  const chart = document.querySelector(".claims");
  if (!chart) return;
  const buttons = Array.from(chart.querySelectorAll("button")), marks = Array.from(chart.querySelectorAll("i"));
  const article = chart.parentElement, rows = Array.from(article.querySelectorAll("tbody tr"));
  const seen = document.createElement("p");
  seen.setAttribute("role", "status");
  chart.append(seen);

  function filter(verdict) {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.verdict === verdict));
    chart.classList.toggle("filtered", verdict !== null);
    for (const mark of marks) mark.classList.toggle("kept", mark.dataset.verdict === verdict);
    for (const row of rows) row.hidden = verdict !== null && row.lastElementChild.textContent.trim() !== verdict;
    let heading = null;
    for (const part of article.children) {
      if (part.tagName === "H2") heading = part;
      if (part.querySelector("tbody") && heading) part.hidden = heading.hidden = !part.querySelector("tbody tr:not([hidden])");
    }
    const n = rows.filter((row) => !row.hidden).length;
    seen.textContent = verdict === null ? "Choose a verdict to see its claims only." : `${n} of ${rows.length} claims: ${verdict}. Choose it again to see all.`;
  }

  for (const button of buttons) {
    button.disabled = false;
    button.addEventListener("click", () => filter(button.getAttribute("aria-pressed") === "true" ? null : button.dataset.verdict));
  }
  marks.forEach((mark, i) => mark.addEventListener("click", () => {
    if (rows[i].hidden) filter(null);
    rows[i].scrollIntoView({ block: "center" });
    rows[i].classList.add("pointed");
    setTimeout(() => rows[i].classList.remove("pointed"), 2500);
  }));
  filter(null);
})();
