#pragma once

namespace cxtrain {

/// Style and script of report_page.h's page; neither loads anything.
inline constexpr const char* kReportStyle = R"css(
:root{color-scheme:light dark;--bg:#fff;--card:#fff;--text:#1b1f24;--muted:#667085;--grid:#eaecf0;--axis:#98a2b3;
--warn:#b54708;--warnbg:#fffaeb;--good:#067647;--bad:#b42318;
--c0:#2563eb;--c1:#ea580c;--c2:#059669;--c3:#9333ea;--c4:#dc2626;--c5:#0891b2;--c6:#a16207;--c7:#db2777}
@media(prefers-color-scheme:dark){:root{--bg:#0f1216;--card:#161a20;--text:#e6e8eb;--muted:#98a2b3;--grid:#262c35;
--axis:#5b6472;--warn:#fdb022;--warnbg:#2a2214;--good:#47cd89;--bad:#f97066;
--c0:#60a5fa;--c1:#fb923c;--c2:#34d399;--c3:#c084fc;--c4:#f87171;--c5:#22d3ee;--c6:#eab308;--c7:#f472b6}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--text);font:14px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1240px;margin:0 auto;padding:28px 24px 64px}
h1{font-size:22px;line-height:1.3;margin:0;overflow-wrap:anywhere}
h2{font-size:15px;margin:36px 0 12px}
.sub{color:var(--muted);margin:2px 0 20px}
.swatch{display:inline-block;width:10px;height:10px;border-radius:3px;background:var(--c);margin-right:7px}
.tiles{display:flex;flex-wrap:wrap;gap:10px 34px;margin:0 0 8px}
.tile b{display:block;font-size:20px;font-weight:600;font-variant-numeric:tabular-nums}
.tile span{color:var(--muted);font-size:12px}
.good{color:var(--good)}.bad{color:var(--bad)}
.note{background:var(--warnbg);color:var(--warn);border-radius:8px;padding:8px 12px;margin:8px 0;overflow-wrap:anywhere}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,500px),1fr));gap:18px}
figure{margin:0;background:var(--card);border:1px solid var(--grid);border-radius:10px;padding:14px 14px 8px;min-width:0}
figcaption{display:flex;flex-wrap:wrap;gap:2px 14px;align-items:baseline;margin:0 0 6px 4px;min-height:21px}
figcaption b{font-size:14px;overflow-wrap:anywhere}
figcaption .unit{color:var(--muted);font-size:12px;margin-left:-8px}
.key{color:var(--muted);font-size:12px;white-space:nowrap;overflow:hidden;text-overflow:ellipsis;max-width:240px}
.key i{display:inline-block;width:16px;border-top:2.5px solid var(--c);vertical-align:middle;margin-right:5px}
.key i.d{border-top-style:dashed}
svg.chart{display:block;width:100%;height:auto;overflow:visible}
svg.key{display:inline-block;width:12px;height:12px;vertical-align:-1px;margin-right:5px}
.grid{stroke:var(--grid);fill:none}.axis{stroke:var(--axis);fill:none}
.tick{fill:var(--muted);font-size:11px;font-variant-numeric:tabular-nums}
.label{fill:var(--text);font-size:11.5px}
.value{fill:var(--c);font-size:11.5px;font-weight:600;font-variant-numeric:tabular-nums}
.line{fill:none;stroke:var(--c);stroke-width:1.9;stroke-linejoin:round;stroke-linecap:round}
.dashed{stroke-dasharray:5 4}
.raw{fill:none;stroke:var(--c);stroke-width:1;opacity:.28;stroke-linejoin:round}
.band{fill:var(--c);opacity:.16}.dot{fill:var(--c)}
.nan{stroke:var(--bad);stroke-width:1.6}
.checkpoint{fill:var(--c);opacity:.8}.straggler{fill:var(--c)}
.restart{stroke:var(--c);stroke-dasharray:3 3;fill:none;opacity:.85}
.suggestion{stroke:var(--good);stroke-width:1.5;fill:none}
.cursor{stroke:var(--axis);stroke-dasharray:2 2;pointer-events:none}
.tip{position:fixed;z-index:2;pointer-events:none;background:var(--card);border:1px solid var(--axis);border-radius:7px;
padding:5px 9px;font-size:12px;font-variant-numeric:tabular-nums;box-shadow:0 4px 14px rgba(0,0,0,.18)}
.tip div{white-space:nowrap}
.tables{display:flex;flex-wrap:wrap;gap:0 64px}.tables section{min-width:0}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:5px 18px 5px 0;border-bottom:1px solid var(--grid);vertical-align:top;overflow-wrap:anywhere;
max-width:520px}
th{font-weight:600}td:first-child,thead th{color:var(--muted);font-weight:500}
td.n,th.n{text-align:right;white-space:nowrap}
td small{color:var(--muted)}
tr.differs td:first-child{color:var(--warn)}
details{margin:10px 0;border:1px solid var(--grid);border-radius:10px;background:var(--card)}
summary{cursor:pointer;padding:9px 14px;font-weight:500;overflow-wrap:anywhere}
pre{margin:0;padding:4px 14px 14px;font:12px/1.55 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-x:auto;
white-space:pre-wrap;overflow-wrap:anywhere}
pre mark{background:var(--warnbg);color:var(--warn);display:block}
footer{color:var(--muted);font-size:12px;margin-top:36px}
@media print{figure,details{break-inside:avoid}.charts{grid-template-columns:1fr 1fr}}
)css";

/// Shows the values of a chart's curves under the mouse.
inline constexpr const char* kReportScript = R"js(
(()=>{const tip=document.createElement('div');tip.className='tip';tip.hidden=true;document.body.append(tip);
const round=v=>{const a=Math.abs(v);return a&&(a<1e-3||a>=1e6)?v.toExponential(2):String(+v.toPrecision(4))};
for(const svg of document.querySelectorAll('svg.chart[data-x]')){
const [x0,x1,lx]=svg.dataset.x.split(' ').map(Number),[y0,y1,ly]=svg.dataset.y.split(' ').map(Number);
const [LEFT,RIGHT,TOP,BOTTOM]=svg.dataset.plot.split(' ').map(Number);
const lines=[...svg.querySelectorAll('.line')].map(p=>({name:p.dataset.n,color:p.style.getPropertyValue('--c'),
at:p.getAttribute('d').slice(1).split('L').map(s=>s.split(' ').map(Number))}));
const cursor=document.createElementNS('http://www.w3.org/2000/svg','path');cursor.setAttribute('class','cursor');
const hide=()=>{tip.hidden=true;cursor.remove()};
svg.addEventListener('mouseleave',hide);
svg.addEventListener('mousemove',e=>{const m=new DOMPoint(e.clientX,e.clientY).matrixTransform(svg.getScreenCTM().inverse());
if(m.x<LEFT-4||m.x>RIGHT+4){hide();return}
let best=null;for(const l of lines)for(const p of l.at)if(best===null||Math.abs(p[0]-m.x)<Math.abs(best-m.x))best=p[0];
if(best===null)return;const x=x0+(best-LEFT)/(RIGHT-LEFT)*(x1-x0);tip.replaceChildren();
const row=(text,color)=>{const d=document.createElement('div');if(color){const s=document.createElement('span');
s.className='swatch';s.style.setProperty('--c',color);d.append(s)}d.append(text);tip.append(d)};
row(lx?'lr '+round(10**x):'step '+Math.round(x));
for(const l of lines){const p=l.at.reduce((a,b)=>Math.abs(b[0]-m.x)<Math.abs(a[0]-m.x)?b:a);
if(Math.abs(p[0]-best)>12)continue;const s=(BOTTOM-p[1])/(BOTTOM-TOP);
row(l.name+'  '+round(ly?y0*(y1/y0)**s:y0+s*(y1-y0)),l.color)}
cursor.setAttribute('d','M'+best+' '+TOP+'V'+BOTTOM);svg.append(cursor);tip.hidden=false;
const w=tip.offsetWidth;tip.style.left=(e.clientX+16+w>innerWidth?e.clientX-16-w:e.clientX+16)+'px';tip.style.top=(e.clientY+14)+'px'})}
})();
)js";

}  // namespace cxtrain
