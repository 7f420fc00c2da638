//! What the drawings of replays and of chaos runs share: an SVG document, its palette, ticks of an axis.
//!
//! A drawing stands alone: no script, no outside font, colours for light and dark. What is drawn, and where, is up to whoever
//! draws. Coordinates are floats; no decision comes from here.

use std::fmt::{self, Write as _};

/// Colours and text of every drawing. Each fill is said twice, for readers that know no variables.
///
/// `s1` to `s5` are series; `yes`, `no` and `warn` are what is well, refused and wrong.
pub const STYLE: &str = "\
svg{--bg:#fff;--lane:#f4f6f8;--ink:#1d232b;--soft:#5c6773;--grid:#d5dbe1;--yes:#1f7a6b;--no:#cf5a1e;--on:#fff;\
--s1:#2563a8;--s2:#1f7a6b;--s3:#7d8995;--s4:#b07d12;--s5:#cf5a1e;--warn:#c02c38}
@media (prefers-color-scheme:dark){svg{--bg:#14181d;--lane:#1c2229;--ink:#e8ecf0;--soft:#9aa5b1;--grid:#38424d;\
--yes:#4fbfa8;--no:#f0925a;--on:#10151a;--s1:#6aa9ea;--s2:#4fbfa8;--s3:#6b7683;--s4:#dcb04c;--s5:#f0925a;--warn:#ff7a85}}
text{font-family:system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;font-size:12px;fill:#1d232b;fill:var(--ink)}
.title{font-size:17px;font-weight:600}
.name{font-size:13px;font-weight:600}
.soft{fill:#5c6773;fill:var(--soft)}
.bg{fill:#fff;fill:var(--bg)}
.lane{fill:#f4f6f8;fill:var(--lane)}
.yes{fill:#1f7a6b;fill:var(--yes)}
.no{fill:#cf5a1e;fill:var(--no)}
.stripe{stroke:#fff;stroke:var(--lane);stroke-width:1.6}
.on{font-size:11px;font-weight:600;text-anchor:middle;fill:#fff;fill:var(--on)}
.grid{stroke:#d5dbe1;stroke:var(--grid);stroke-width:1}
.window{stroke:#5c6773;stroke:var(--soft);stroke-width:1;stroke-dasharray:3 4;stroke-opacity:.6}
.tick{text-anchor:middle;fill:#5c6773;fill:var(--soft)}
.left{text-anchor:end;fill:#5c6773;fill:var(--soft)}
.s1{fill:#2563a8;fill:var(--s1)}
.s2{fill:#1f7a6b;fill:var(--s2)}
.s3{fill:#7d8995;fill:var(--s3)}
.s4{fill:#b07d12;fill:var(--s4)}
.s5{fill:#cf5a1e;fill:var(--s5)}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round}
.l1{stroke:#2563a8;stroke:var(--s1)}
.l2{stroke:#1f7a6b;stroke:var(--s2)}
.l3{stroke:#7d8995;stroke:var(--s3)}
.l4{stroke:#b07d12;stroke:var(--s4)}
.l5{stroke:#cf5a1e;stroke:var(--s5)}
.bound{stroke:#c02c38;stroke:var(--warn);stroke-width:1.4;stroke-dasharray:6 3}
.end{text-anchor:end}
.warn{fill:#c02c38;fill:var(--warn)}
.fault{fill:#c02c38;fill:var(--warn);fill-opacity:.10}
.mark{stroke:#c02c38;stroke:var(--warn);stroke-width:1;stroke-opacity:.55}
";

/// A document's beginning: sizes, [`STYLE`], what `defs` defines, the background and the title. It ends with [`finish`].
#[must_use]
pub fn begin(title: &str, (width, height): (f64, f64), defs: &str) -> String {
    let title = escape(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" aria-label=\"{title}\">\n<style>\n{STYLE}</style>\n<defs>{defs}</defs>\n\
         <rect class=\"bg\" width=\"{width}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"24\" y=\"34\">{title}</text>\n"
    )
}

/// Adds an element.
///
/// # Panics
/// Never: a string takes all.
pub fn put(svg: &mut String, element: fmt::Arguments<'_>) {
    writeln!(svg, "{element}").expect("writing to a string succeeds");
}

/// The whole document.
#[must_use]
pub fn finish(mut svg: String) -> String {
    svg.push_str("</svg>\n");
    svg
}

/// Text as it may stand in an element or an attribute.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The smallest of 1, 2 and 5 times a power of ten of which `span` holds at most `ticks_max`.
#[must_use]
pub fn nice_step(span: u64, ticks_max: u64) -> u64 {
    let mut power = 1_u64;
    loop {
        for factor in [1, 2, 5] {
            let step = power.saturating_mul(factor);
            if span / step <= ticks_max {
                return step;
            }
        }
        power = power.saturating_mul(10);
    }
}

/// What is wrong with a document, for the tests of whoever draws one: an element that isn't closed, or a coordinate that is
/// no number.
///
/// # Errors
/// The first such thing.
pub fn well_formed(svg: &str) -> Result<(), String> {
    let mut open = Vec::new();
    for tag in svg.split('<').skip(1).map(|rest| rest.split('>').next().unwrap_or_default()) {
        match tag.strip_prefix('/') {
            Some(name) => {
                let last = open.pop();
                if last != Some(name) {
                    return Err(format!("</{name}> closes {last:?}"));
                }
            }
            None if tag.ends_with('/') => {}
            None => open.push(tag.split_whitespace().next().unwrap_or_default()),
        }
    }
    match ["NaN", "inf"].into_iter().find(|word| svg.contains(word)) {
        Some(word) => Err(format!("{word} is no coordinate")),
        None if open.is_empty() => Ok(()),
        None => Err(format!("not closed: {open:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_well_formed_and_says_its_title_as_text() {
        let mut svg = begin("a < b & \"c\"", (10.0, 5.0), "");
        put(&mut svg, format_args!("<g><line x1=\"0\"/></g>"));
        let svg = finish(svg);
        assert_eq!(well_formed(&svg), Ok(()));
        assert!(svg.contains(">a &lt; b &amp; &quot;c&quot;</text>"), "{svg}");
    }

    #[test]
    fn what_is_broken_is_told() {
        assert_eq!(well_formed("<g><a></g>"), Err("</g> closes Some(\"a\")".to_owned()));
        assert_eq!(well_formed("<g>"), Err("not closed: [\"g\"]".to_owned()));
        assert_eq!(well_formed("<g x=\"NaN\"/>"), Err("NaN is no coordinate".to_owned()));
    }

    #[test]
    fn ticks_are_round_and_few() {
        for (span, step) in
            [(0, 1), (10, 1), (11, 2), (60, 10), (600, 100), (25, 5), (u64::MAX, 2_000_000_000_000_000_000)]
        {
            assert_eq!(nice_step(span, 10), step, "{span}");
        }
    }
}
