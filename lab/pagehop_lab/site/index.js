// Filters of the table of runs, and the choice of two of them. Without it all runs are shown.
const rows = [...document.querySelectorAll("#runs tbody tr")];
const selects = [...document.querySelectorAll("select[data-filter]")];
const words = document.getElementById("words");
const sound = document.getElementById("sound");

function filter() {
  const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of rows) {
    const tags = JSON.parse(row.dataset.tags);
    const text = row.textContent.toLowerCase();
    const fits = selects.every((one) => !one.value || tags[one.dataset.filter].includes(one.value))
      && wanted.every((word) => text.includes(word)) && (!sound.checked || row.dataset.sound === "1");
    row.hidden = !fits;
    shown += fits;
  }
  document.getElementById("count").textContent = `${shown} of ${rows.length}`;
}

const first = document.getElementById("first");
const second = document.getElementById("second");
const names = rows.map((row) => row.dataset.name).sort();

function choose() {
  const found = PAIRS.find((pair) => pair.includes(first.value) && pair.includes(second.value));
  const place = document.getElementById("pair");
  place.textContent = "";
  if (first.value === second.value) {
    place.textContent = "choose two runs";
  } else if (!found) {
    place.textContent = "they have no figure in common";
  } else {
    const link = document.createElement("a");
    link.href = `pairs/${found[0]}--${found[1]}.html`;
    link.textContent = "compare them";
    place.append(link);
  }
}

for (const select of [first, second]) {
  for (const name of names) select.add(new Option(name));
  select.addEventListener("change", choose);
}
if (PAIRS.length) [first.value, second.value] = PAIRS[0];
for (const one of selects) one.addEventListener("change", filter);
words.addEventListener("input", filter);
sound.addEventListener("change", filter);
filter();
choose();
