//! Pages that are drawn here, as SVG: they have no script, and need none.

/// The head of a page, up to its first heading.
pub fn head(title: &str, style: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{0} · thaw</title>\
         <style>{style}</style></head>\n<body><h1>{0}</h1>\n",
        escaped(title)
    )
}

/// Text of programs and files is nobody's to vouch for.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Round values of a scale from one to another, about five.
pub fn ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    if !rough.is_finite() || rough <= 0.0 {
        return vec![low];
    }
    let power = 10_f64.powf(rough.log10().floor());
    // From four to eight of them.
    let steps = [1.0, 2.0, 5.0, 10.0].map(|part| part * power);
    let step = steps.into_iter().find(|step| *step >= 0.7 * rough).unwrap_or(rough);
    let first = (low / step).ceil() as i64;
    (first..).map(|at| at as f64 * step).take_while(|value| *value <= high + step * 1e-9).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_have_round_values_inside() {
        assert_eq!(ticks(0.0, 1.0), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(ticks(-0.3, 0.72).len(), 5);
        for (low, high) in [(3.0, 3.0), (f64::NAN, 1.0), (-7e9, 12e9), (1e-9, 2e-9)] {
            assert!((1..=11).contains(&ticks(low, high).len()), "{low} {high}");
        }
        assert_eq!(escaped("<a & \"b\">"), "&lt;a &amp; &quot;b&quot;&gt;");
    }
}
