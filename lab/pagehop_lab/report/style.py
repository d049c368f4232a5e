"""The style of the page, for light and dark screens and for paper."""

STYLE = """
:root {
  --back: #fff; --text: #1c1e21; --soft: #5f6670; --line: #e3e6ea; --row: #f6f7f9; --link: #0b5cad;
  --good: #1a7f37; --bad: #b42318; --bad-back: #fdecea;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #15181c; --text: #e4e7eb; --soft: #9aa3ad; --line: #2c3239; --row: #1c2127; --link: #7ab7f5;
    --good: #4cc26b; --bad: #f28b82; --bad-back: #3a1d1b;
  }
}
* { box-sizing: border-box; }
body {
  margin: 2.5rem auto; max-width: 72rem; padding: 0 1.25rem; background: var(--back); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
h1 { font-size: 1.7rem; margin: 0 0 .25rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; padding-top: 1.25rem; border-top: 1px solid var(--line); }
a { color: var(--link); text-decoration: none; }
a:hover { text-decoration: underline; }
.lead, .note { color: var(--soft); }
.lead { margin: 0 0 1rem; }
.note { font-size: .86rem; margin: .35rem 0 .6rem; max-width: 62rem; }
.state { display: inline-block; padding: .3rem .8rem; border-radius: .4rem; border: 1px solid; font-weight: 600; }
.state.good { color: var(--good); }
.state.bad { color: var(--bad); background: var(--bad-back); }
figure { margin: 1rem 0 1.5rem; }
figcaption, summary { font-weight: 600; }
summary { cursor: pointer; margin-top: 1.25rem; }
summary small { font-weight: 400; color: var(--soft); }
figure > svg { width: 100%; height: auto; display: block; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; margin: .4rem 0; padding: 0; }
.legend li { display: flex; align-items: center; gap: .4rem; font-size: .9rem; }
.key { width: 14px; height: 14px; overflow: visible; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; }
th, td { padding: .28rem .7rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
td { white-space: nowrap; }
td.long { white-space: normal; min-width: 22rem; }
th { color: var(--soft); font-weight: 600; white-space: nowrap; }
tbody tr:hover { background: var(--row); }
.number { text-align: right; white-space: nowrap; }
td.invalid, td.invalid a { color: var(--bad); }
td.better { color: var(--good); font-weight: 600; }
td.worse { color: var(--bad); background: var(--bad-back); font-weight: 600; }
.up1, .up2, .up3, .up4, .up5 { background: color-mix(in srgb, var(--good) var(--deep), transparent); }
.down1, .down2, .down3, .down4, .down5 { background: color-mix(in srgb, var(--bad) var(--deep), transparent); }
.up1, .down1 { --deep: 10%; } .up2, .down2 { --deep: 20%; } .up3, .down3 { --deep: 32%; }
.up4, .down4 { --deep: 46%; } .up5, .down5 { --deep: 60%; }
td[class*=up] a, td[class*=down] a { color: var(--text); }
.shades { display: flex; flex-wrap: wrap; gap: .2rem; font-size: .8rem; margin: .35rem 0 .6rem; }
.shades span { padding: .1rem .5rem; }
svg text { fill: var(--soft); font-size: 12px; font-family: inherit; }
svg .title { font-size: 13px; }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg .axis { stroke: var(--soft); stroke-width: 1; }
.line { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; opacity: .85; }
.again .line { stroke-dasharray: 7 4; }
.range { stroke: var(--c); stroke-width: 1.5; opacity: .55; }
.mark { fill: var(--c); stroke: var(--back); stroke-width: 1; }
.mark.hollow { fill: var(--back); stroke: var(--c); stroke-width: 1.5; stroke-dasharray: 2 1.5; }
a:hover .mark { stroke: var(--text); stroke-width: 2; }
.c0 { --c: #1f6feb; } .c1 { --c: #d9480f; } .c2 { --c: #2b8a3e; } .c3 { --c: #9c36b5; } .c4 { --c: #c2255c; }
.c5 { --c: #0c8599; } .c6 { --c: #b08900; } .c7 { --c: #5c677d; } .c8 { --c: #7048e8; } .c9 { --c: #74b816; }
@media print { body { margin: 0; max-width: none; } details:not([open]) { display: none; } }
"""
