"""The style of the HTML report, on screens light and dark, and on paper."""

from __future__ import annotations

LIGHT = """
--ground:#ffffff; --panel:#f5f7f9; --ink:#1b1f24; --faint:#545d68; --edge:#c8d0d9;
--link:#0550ae; --focus:#0550ae;
--critical:#a40e26; --on-critical:#ffffff; --high:#b1450c; --on-high:#ffffff;
--medium:#ffe08a; --on-medium:#3d2e00; --low:#cfe8f7; --on-low:#083b54;
--info:#e4e8ec; --on-info:#333b44; --open:#efe0fb; --on-open:#4f1a7c;
--fine:#d8f3df; --on-fine:#0b4a22;
--bitmaps:#c2541e; --tables:#2f6f9f; --descriptors:#5d7d24;
"""
DARK = """
--ground:#0f1419; --panel:#182029; --ink:#e6edf3; --faint:#a3b0bd; --edge:#3a4653;
--link:#7cc4ff; --focus:#7cc4ff;
--critical:#c9182f; --on-critical:#ffffff; --high:#ff9f5c; --on-high:#2b1200;
--medium:#f0cb62; --on-medium:#2a1f00; --low:#7fc8ea; --on-low:#05222f;
--info:#3b4652; --on-info:#eef2f6; --open:#d3aaff; --on-open:#240a3a;
--fine:#7fe0a1; --on-fine:#04230f;
--bitmaps:#f08a55; --tables:#6db3e6; --descriptors:#a6c85f;
"""
_COMMON = """
*{box-sizing:border-box}
body{margin:0; background:var(--ground); color:var(--ink); overflow-wrap:anywhere;
font:16px/1.5 system-ui,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
header.page,main,footer{max-width:74rem; margin:0 auto; padding:0 1.25rem}
h1{font-size:1.7rem; line-height:1.2; margin:1.5rem 0 .4rem}
h2{font-size:1.35rem; line-height:1.3; margin:2rem 0 .5rem}
h3{font-size:1.15rem; line-height:1.3; margin:0 0 .5rem}
h4{font-size:1rem; margin:1.2rem 0 .4rem}
p{margin:.4rem 0}
a{color:var(--link)}
:focus-visible{outline:3px solid var(--focus); outline-offset:2px; border-radius:2px}
.skip{position:absolute; left:-100rem; top:0; padding:.5rem 1rem; background:var(--ground)}
.skip:focus{left:.5rem; top:.5rem; z-index:9}
.faint{color:var(--faint)}
.small{font-size:.875rem}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
font-size:.875rem}
pre{margin:.2rem 0 .5rem; padding:.5rem .75rem; background:var(--ground); overflow-x:auto;
border:1px solid var(--edge); border-radius:4px; white-space:pre-wrap}
pre.command code{user-select:all; -webkit-user-select:all}
.badge{display:inline-block; padding:.05rem .45rem; border-radius:3px; font-size:.8125rem;
font-weight:700; line-height:1.5; overflow-wrap:normal; border:1px solid transparent}
.critical{background:var(--critical); color:var(--on-critical)}
.high{background:var(--high); color:var(--on-high)}
.medium{background:var(--medium); color:var(--on-medium)}
.low{background:var(--low); color:var(--on-low)}
.info{background:var(--info); color:var(--on-info)}
.open{background:var(--open); color:var(--on-open)}
.fine{background:var(--fine); color:var(--on-fine)}
.chips{display:flex; flex-wrap:wrap; gap:.4rem; margin:.5rem 0}
.message{display:block; margin:.2rem 0}
.banner{margin:.8rem 0; padding:.6rem .9rem; border-radius:6px; font-weight:700}
dl.facts{display:grid; grid-template-columns:max-content minmax(0,1fr); gap:.15rem 1rem;
align-content:start; margin:0}
dl.facts dt{color:var(--faint)}
dl.facts dd{margin:0}
table{border-collapse:collapse; font-size:.875rem; width:100%}
th,td{text-align:left; vertical-align:top; padding:.25rem .6rem .25rem 0;
border-bottom:1px solid var(--edge)}
th{font-weight:600}
thead th{color:var(--faint); overflow-wrap:break-word}
tbody th{min-width:7rem}
tbody td{min-width:6rem}
td.number,th.number{min-width:0; text-align:right; font-variant-numeric:tabular-nums;
white-space:nowrap}
summary{cursor:pointer; padding:.2rem 0}
summary h2,summary h3,summary h4{display:inline; margin:0}
.subject{margin:1.25rem 0; padding:1rem 1.1rem; border:1px solid var(--edge); border-radius:8px;
background:var(--panel)}
.pair{display:flex; flex-wrap:wrap; gap:1rem 2rem; justify-content:space-between}
.pair>*{min-width:0}
.pair>dl{flex:1 1 22rem}
.finding{margin:.9rem 0; padding:.5rem .9rem .6rem; background:var(--ground);
border:1px solid var(--edge); border-left-width:6px; border-radius:4px}
.finding.on-critical{border-left-color:var(--critical)}
.finding.on-high{border-left-color:var(--high)}
.finding.on-medium{border-left-color:var(--medium)}
.finding.on-low{border-left-color:var(--low)}
.finding.on-info{border-left-color:var(--info)}
.finding pre{background:var(--panel)}
.remedy{margin:.8rem 0 .2rem; padding-top:.5rem; border-top:1px dashed var(--edge)}
.fold{margin:.6rem 0}
.fold>summary{font-weight:600}
.contents{list-style:none; margin:.8rem 0; padding:0}
.contents li{margin:.2rem 0}
.legend span{margin-right:1.2rem}
.scroll{overflow-x:auto}
.host{border-top:2px solid var(--edge); margin-top:1.5rem}
.host>summary{padding:.6rem 0}
.matrix{width:auto}
.matrix th,.matrix td{padding:.2rem .4rem; border:1px solid var(--edge)}
.tall{max-height:85vh}
.matrix thead th{position:sticky; top:0; z-index:2; vertical-align:bottom; color:var(--ink);
background:var(--ground)}
.matrix thead th.rule span{writing-mode:vertical-rl; transform:rotate(180deg); white-space:nowrap;
font-weight:400}
.matrix td{min-width:0; text-align:center; white-space:nowrap}
.matrix td.words{text-align:left; white-space:normal}
.matrix tbody th,.matrix thead th:first-child{position:sticky; left:0; z-index:1;
min-width:13rem; max-width:22rem; white-space:normal; overflow-wrap:break-word;
background:var(--ground)}
.matrix thead th:first-child{z-index:3}
svg{display:block; fill:currentColor;
font-family:system-ui,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
svg .box{fill:var(--ground); stroke:var(--edge); stroke-width:1.5}
svg .top{stroke:var(--ink)}
svg .hole{stroke:var(--faint); stroke-dasharray:5 4}
svg .pile{fill:var(--panel); stroke:var(--edge); stroke-width:1.5}
svg .edge{fill:none; stroke:var(--faint); stroke-width:1.5}
svg .name{font-size:13px; font-weight:700}
svg .detail{font-size:12px; fill:var(--faint)}
svg.bar{width:100%; min-width:8rem; height:1rem}
td.bars{width:45%; min-width:8rem}
.bitmaps{fill:var(--bitmaps)} .tables{fill:var(--tables)} .descriptors{fill:var(--descriptors)}
svg.key{display:inline-block; width:.8rem; height:.8rem; vertical-align:-.05rem}
footer{padding-top:1rem; padding-bottom:2rem; font-size:.875rem; color:var(--faint)}
"""
_PRINT = """
@page{margin:15mm}
body{font-size:10pt}
header.page,main,footer{max-width:none; padding:0}
.skip,nav{display:none}
.subject{background:none; padding:.6rem .7rem}
tr,.banner,svg,pre,summary{break-inside:avoid}
h2,h3,h4,summary,.remedy>p{break-after:avoid}
.badge{border-color:currentColor}
svg{max-width:100%; height:auto}
.scroll{overflow:visible; max-height:none}
.matrix{font-size:7pt; overflow-wrap:normal}
.matrix .badge{font-size:7pt; padding:0 .2rem}
.matrix tbody th,.matrix thead th{min-width:0; position:static}
.matrix thead th:first-child{min-width:0; position:static}
.matrix th,.matrix td{padding:.1rem .15rem}
*{print-color-adjust:exact; -webkit-print-color-adjust:exact}
details.printed::details-content{content-visibility:visible; block-size:auto}
"""
STYLE = (
    f":root{{color-scheme:light dark;{LIGHT}}}\n"
    f"@media screen and (prefers-color-scheme:dark){{:root{{{DARK}}}}}"
    f"{_COMMON}@media print{{{_PRINT}}}\n"
)
"""What the one <style> holds. On paper the colours are always the light ones."""
