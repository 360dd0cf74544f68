//! Figures of one sample: mean, spread, quantiles, and the values that lie far from the others.

use crate::{Estimate, Interval, LEVEL};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Modified z-score above which a value is flagged (Iglewicz and Hoaglin 1993).
const FAR: f64 = 3.5;
/// Among fewer values than this none is far from "the others".
const FEWEST: usize = 5;
/// The MAD of a normal distribution is 0.6745 standard deviations.
const MAD_TO_SIGMA: f64 = 0.6745;
/// The mean absolute deviation of a normal distribution is 1 / 1.253314 standard deviations.
const SIGMA_TO_MEAN_AD: f64 = 1.253_314;

/// Mean with its t interval: mean ± t(0.975, n-1)·s/√n. No interval for fewer than 2 values; NaN for none.
pub fn mean(x: &[f64]) -> Estimate {
    let value = plain_mean(x);
    let interval = (x.len() >= 2).then(|| {
        let half = t_quantile(0.5 + LEVEL / 2.0, x.len() - 1) * standard_error(x);
        Interval { low: value - half, high: value + half }
    });
    Estimate { value, interval }
}

/// Mean of values that cannot be negative, such as times, with an interval that does not reach below 0 either: the t
/// interval of its log, whose standard error is that of the mean divided by the mean (the delta method). Where the mean
/// is 0 so are all values, and its interval has no width. NaN for no values.
pub fn mean_of_positive(x: &[f64]) -> Estimate {
    let plain = mean(x);
    let interval = plain.interval.map(|interval| {
        let factor = ((interval.high - plain.value) / plain.value).exp();
        if plain.value > 0.0 { Interval { low: plain.value / factor, high: plain.value * factor } } else { interval }
    });
    Estimate { interval, ..plain }
}

/// How much larger the mean of `new` is than that of `old`, whose spreads may differ: Welch's t interval (1947), with
/// Satterthwaite's degrees of freedom. No interval with fewer than 2 values on a side; NaN for none.
pub fn difference_of_means(new: &[f64], old: &[f64]) -> Estimate {
    let value = plain_mean(new) - plain_mean(old);
    let interval = (new.len() >= 2 && old.len() >= 2).then(|| {
        let squares = [new, old].map(|x| standard_error(x).powi(2));
        let whole: f64 = squares.iter().sum();
        let freedom = |(square, x): (&f64, &[f64])| square.powi(2) / (x.len() - 1) as f64;
        let degrees = whole.powi(2) / squares.iter().zip([new, old]).map(freedom).sum::<f64>();
        // Where nothing varies there is no distribution to ask.
        let half = match StudentsT::new(0.0, 1.0, degrees) {
            Ok(t) if whole > 0.0 => t.inverse_cdf(0.5 + LEVEL / 2.0) * whole.sqrt(),
            _ => 0.0,
        };
        Interval { low: value - half, high: value + half }
    });
    Estimate { value, interval }
}

/// Sample standard deviation, with n-1 in the denominator. NaN for fewer than 2 values.
pub fn stddev(x: &[f64]) -> f64 {
    if x.len() < 2 {
        return f64::NAN;
    }
    let mean = plain_mean(x);
    // The second term corrects for the rounding of the mean (Chan, Golub and LeVeque 1983).
    let squares: f64 = x.iter().map(|value| (value - mean).powi(2)).sum();
    let rest: f64 = x.iter().map(|value| value - mean).sum();
    let n = x.len() as f64;
    ((squares - rest * rest / n).max(0.0) / (n - 1.0)).sqrt()
}

/// Quantile of type 7 (Hyndman and Fan 1996), the default of R and NumPy. `p` from 0 to 1; NaN for no values.
pub fn quantile(x: &[f64], p: f64) -> f64 {
    let mut values = x.to_vec();
    select_quantile(&mut values, p)
}

/// Half the width of the interval as a share of the value: 0.01 is "± 1 %".
/// `None` without an interval, or when the value is 0.
pub fn relative_half_width(estimate: &Estimate) -> Option<f64> {
    let interval = estimate.interval?;
    let share = (interval.high - interval.low) / 2.0 / estimate.value.abs();
    share.is_finite().then_some(share)
}

/// Positions of values whose modified z-score 0.6745·|x - median|/MAD is above 3.5 (Iglewicz and Hoaglin 1993).
///
/// Where more than half of the values are equal, MAD is 0; then the mean absolute deviation takes its place, times
/// 1.2533 instead of divided by 0.6745. All values equal, or fewer than 5: there are no outliers.
pub fn outliers(x: &[f64]) -> Vec<usize> {
    if x.len() < FEWEST {
        return Vec::new();
    }
    let median = plain_median(x);
    let away: Vec<f64> = x.iter().map(|value| (value - median).abs()).collect();
    let mad = plain_median(&away);
    let sigma = if mad > 0.0 { mad / MAD_TO_SIGMA } else { plain_mean(&away) * SIGMA_TO_MEAN_AD };
    if sigma <= 0.0 {
        return Vec::new();
    }
    (0..x.len()).filter(|&at| away[at] > FAR * sigma).collect()
}

/// Quantile of Student's t distribution.
pub(crate) fn t_quantile(p: f64, degrees: usize) -> f64 {
    StudentsT::new(0.0, 1.0, degrees as f64).expect("degrees of freedom are at least 1").inverse_cdf(p)
}

/// Standard error of the mean.
pub(crate) fn standard_error(x: &[f64]) -> f64 {
    stddev(x) / (x.len() as f64).sqrt()
}

pub(crate) fn plain_mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

pub(crate) fn plain_median(x: &[f64]) -> f64 {
    quantile(x, 0.5)
}

/// Quantile of type 7 by selection, in O(n); puts the values out of order.
pub(crate) fn select_quantile(values: &mut [f64], p: f64) -> f64 {
    let Some(last) = values.len().checked_sub(1) else { return f64::NAN };
    let position = p.clamp(0.0, 1.0) * last as f64;
    let below = (position.floor() as usize).min(last);
    let share = position - below as f64;
    let (_, &mut low, above) = values.select_nth_unstable_by(below, f64::total_cmp);
    if share == 0.0 {
        return low;
    }
    let high = above.iter().copied().min_by(f64::total_cmp).unwrap_or(low);
    between(low, high, share)
}

/// Quantile of type 7 of values in ascending order.
pub(crate) fn sorted_quantile(sorted: &[f64], p: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let position = p.clamp(0.0, 1.0) * last as f64;
    let below = (position.floor() as usize).min(last);
    between(sorted[below], sorted[(below + 1).min(last)], position - below as f64)
}

/// `low` and `high` themselves at the ends, never outside, so that equal values stay equal.
fn between(low: f64, high: f64, share: f64) -> f64 {
    if share == 0.5 { low / 2.0 + high / 2.0 } else { (low + (high - low) * share).clamp(low, high) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_data::{SLEEP_1, SLEEP_2, close};

    #[test]
    fn t_quantiles_are_those_of_the_tables() {
        // Two-sided 95 % points of Student's t, as printed in every textbook, with more digits from R's qt(0.975, df).
        for (degrees, expected) in
            [(1, 12.706_204_7), (2, 4.302_652_73), (4, 2.776_445_11), (9, 2.262_157_16), (29, 2.045_229_64)]
        {
            close(t_quantile(0.975, degrees), expected, 1e-7);
        }
        close(t_quantile(0.975, 999), 1.962_341_46, 1e-7);
        close(t_quantile(0.8, 9), 0.883_403_86, 1e-7);
    }

    #[test]
    fn the_mean_has_the_interval_that_r_prints_for_the_sleep_data() {
        let estimate = mean(&SLEEP_1);
        close(estimate.value, 0.75, 1e-12);
        let interval = estimate.interval.unwrap();
        close(interval.low, -0.529_780_4, 1e-6);
        close(interval.high, 2.029_780_4, 1e-6);
        close(mean(&SLEEP_2).value, 2.33, 1e-12);
        close(stddev(&SLEEP_1), 1.789_010, 1e-5);
    }

    #[test]
    fn a_difference_has_the_interval_that_r_prints_for_the_sleep_data() {
        // t.test(extra ~ group, data = sleep): df = 17.776, -3.3654832 to 0.2054832.
        let estimate = difference_of_means(&SLEEP_1, &SLEEP_2);
        close(estimate.value, -1.58, 1e-12);
        let interval = estimate.interval.unwrap();
        close(interval.low, -3.365_483_2, 1e-6);
        close(interval.high, 0.205_483_2, 1e-6);
        assert_eq!(difference_of_means(&SLEEP_1, &[1.0]).interval, None);
        let same = Interval { low: 2.0, high: 2.0 };
        assert_eq!(difference_of_means(&[3.0, 3.0], &[1.0, 1.0]).interval, Some(same));
        // Only one side varies: as many degrees of freedom as it has.
        let one = difference_of_means(&SLEEP_1, &[0.0, 0.0]).interval.unwrap();
        close(one.low, mean(&SLEEP_1).interval.unwrap().low, 1e-9);
    }

    #[test]
    fn an_interval_of_times_does_not_reach_below_nothing() {
        let x = [0.002, 0.003, 0.002, 0.062];
        assert!(mean(&x).interval.unwrap().low < 0.0);
        let interval = mean_of_positive(&x).interval.unwrap();
        assert!(interval.low > 0.0 && interval.high > 0.062, "{interval:?}");
        // Where the values scatter little it is the t interval.
        let near: Vec<f64> = SLEEP_1.iter().map(|hours| 1_000.0 + hours).collect();
        let (log, plain) = (mean_of_positive(&near).interval.unwrap(), mean(&near).interval.unwrap());
        close(log.low, plain.low, 2e-3);
        close(log.high, plain.high, 2e-3);
        assert_eq!(
            mean_of_positive(&[0.0, 0.0]),
            Estimate { value: 0.0, interval: Some(Interval { low: 0.0, high: 0.0 }) }
        );
    }

    #[test]
    fn one_run_has_a_mean_and_no_interval() {
        assert_eq!(mean(&[1.5]), Estimate { value: 1.5, interval: None });
        assert!(mean(&[]).value.is_nan());
        assert!(stddev(&[1.5]).is_nan());
        assert_eq!(relative_half_width(&mean(&[1.5])), None);
    }

    #[test]
    fn stddev_keeps_small_spread_on_a_large_offset() {
        let x: Vec<f64> = [4.0, 7.0, 13.0, 16.0].iter().map(|value| value + 1e9).collect();
        close(stddev(&x), 30.0_f64.sqrt(), 1e-6);
    }

    #[test]
    fn stddev_of_neighbouring_numbers_is_right_though_their_mean_is_rounded_to_one_of_them() {
        // 1e9 and the next number that a float can hold: the mean of both is one of them.
        let step = 2.0_f64.powi(-23);
        let expected = step / 2.0_f64.sqrt();
        close(stddev(&[1e9, 1e9 + step]), expected, expected * 1e-9);
        close(stddev(&[1e9 + step, 1e9 + 2.0 * step]), expected, expected * 1e-9);
    }

    #[test]
    fn quantiles_are_of_type_7() {
        let x = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(quantile(&x, 0.25), 1.75);
        assert_eq!(quantile(&x, 0.5), 2.5);
        assert_eq!(quantile(&x, 1.0), 4.0);
        assert_eq!(quantile(&x, 0.0), 1.0);
        assert!(quantile(&[], 0.5).is_nan());
        // R: quantile(c(10.3, 2.7, 5.5, 8.1, 3.3), c(0.1, 0.9))
        let y = [10.3, 2.7, 5.5, 8.1, 3.3];
        close(quantile(&y, 0.1), 2.94, 1e-12);
        close(quantile(&y, 0.9), 9.42, 1e-12);
    }

    #[test]
    fn half_width_is_a_share() {
        let estimate = Estimate { value: 2.0, interval: Some(Interval { low: 1.9, high: 2.1 }) };
        close(relative_half_width(&estimate).unwrap(), 0.05, 1e-12);
        let zero = Estimate { value: 0.0, interval: Some(Interval { low: -1.0, high: 1.0 }) };
        assert_eq!(relative_half_width(&zero), None);
    }

    #[test]
    fn two_outliers_do_not_hide_each_other() {
        // The standard deviation of these is 2.6: with plain z-scores neither 8.2 nor 8.3 would stand out.
        let x = [2.1, 2.6, 2.4, 2.5, 2.3, 2.1, 2.3, 2.6, 8.2, 8.3];
        assert_eq!(outliers(&x), [8, 9]);
    }

    #[test]
    fn the_limit_is_a_modified_z_score_of_three_and_a_half() {
        // Median 3, MAD 1: flagged from 3 + 3.5 / 0.6745 = 8.189 on.
        assert_eq!(outliers(&[1.0, 2.0, 3.0, 4.0, 8.18]), []);
        assert_eq!(outliers(&[1.0, 2.0, 3.0, 4.0, 8.20]), [4]);
        let limit = 3.5 * (1.0 / 0.6745);
        assert_eq!(outliers(&[-1.0, -1.0, 0.0, 1.0, limit]), [], "a score of just three and a half is not above it");
    }

    #[test]
    fn outliers_where_most_values_are_equal() {
        assert_eq!(outliers(&[5.0; 9]), []);
        let mut x = [5.0; 10];
        x[3] = 6.0;
        assert_eq!(outliers(&x), [3], "the mean absolute deviation takes the place of a MAD of 0");
        // The mean absolute deviation of these is 0.1: flagged from 3.5 · 1.2533 · 0.1 = 0.4387 on.
        x[3] = 5.42;
        x[7] = 5.58;
        assert_eq!(outliers(&x), [7]);
        assert_eq!(outliers(&[1.0, 1.01, 1.0, 100.0]), [], "four runs are too few to tell");
    }
}
