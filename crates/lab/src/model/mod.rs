//! `fulmar-lab model`: a paper's equations evaluated, and its pictures drawn again.
//!
//! The equations are the crate `models`; this reads parameters, and prints what comes out.

mod arguments;
mod picture;

use serde::Serialize;
use serde_json::{Value, json};

pub(crate) use arguments::Model;
use arguments::{
    ChannelArgs, CompletionArgs, InertiaArgs, InterfacesArgs, MaxFailureArgs, OutagesArgs, Output,
    SuccessArgs,
};
use emulator::Failure;
use models::conclone::{self, channel, lifetime, outages};
use models::{asran, conclone::outages::Messages};
use sys::print::{print, tell};

use crate::checks;

/// Evaluates a model and prints what comes out.
pub(crate) fn run(model: &Model) -> Result<(), Failure> {
    match model {
        Model::Conclone { json } => {
            let all = conclone::checks();
            if *json {
                print_json(&json!({"model": "conclone", "checks": all}))?;
            } else {
                checks::print_table(&all)?;
            }
            Ok(())
        }
        Model::AsranGain(args) => {
            let stretch =
                asran::Stretch { i: args.i, last_max: args.last_max, t: args.t, rtt: 1.0 };
            let gain = asran::gain(stretch, args.step, &args.subflow).map_err(Failure::Usage)?;
            if args.json {
                print_json(&gain)?;
            } else {
                print(gain.to_string().trim_end())?;
            }
            Ok(())
        }
        Model::Success(args) => {
            picture::success(&args.output)?;
            show(&args.output, &success(args)?)
        }
        Model::Completion(args) => {
            picture::completion(&args.output)?;
            show(&args.output, &completion(args))
        }
        Model::MaxFailure(args) => {
            picture::completion(&args.output)?;
            show(&args.output, &max_failure(args)?)
        }
        Model::Interfaces(args) => {
            picture::interfaces(&args.output)?;
            show(&args.output, &interfaces(args)?)
        }
        Model::Channel(args) => {
            picture::channel(&args.output)?;
            show(&args.output, &channel(args)?)
        }
        Model::Inertia(args) => show(&args.output, &inertia(args)),
        Model::Outages(args) => {
            if args.output.out.is_some() {
                let what = "outages: the paper has no picture of them: leave --out out";
                return Err(Failure::Usage(what.to_owned()));
            }
            show(&args.output, &outages(args))
        }
    }
}

/// Eq. 1, or eq. 2 where there is one f.
fn success(args: &SuccessArgs) -> Result<Value, Failure> {
    let failures = match (&args.f[..], args.n) {
        ([f], n) => vec![*f; n.unwrap_or(1) as usize],
        (failures, Some(n)) if failures.len() != n as usize => {
            let what = format!("--n {n}: there are {} --f; leave --n out", failures.len());
            return Err(Failure::Usage(what));
        }
        (failures, _) => failures.to_vec(),
    };
    Ok(json!({
        "model": "success",
        "f": failures,
        "n": failures.len(),
        "p_success": conclone::success_probability(&failures),
    }))
}

/// Eq. 3 to 7.
fn completion(CompletionArgs { messages: args, .. }: &CompletionArgs) -> Value {
    let (ideal_s, recovery_s) = (
        conclone::ideal_time(args.count, args.interval),
        conclone::recovery_time(args.count, args.k, args.interval, args.f, args.n),
    );
    json!({
        "model": "completion",
        "f": args.f, "k": args.k, "n": args.n, "count": args.count, "interval_s": args.interval,
        "tr": conclone::completion_ratio(args.k, args.f, args.n),
        "total_ideal_s": ideal_s,
        "total_recovery_s": recovery_s,
        "total_completion_s": ideal_s + recovery_s,
    })
}

/// Eq. 7 solved for f.
fn max_failure(args: &MaxFailureArgs) -> Result<Value, Failure> {
    if args.tr <= 1.0 {
        return Err(Failure::Usage(format!("--tr {}: must be above 1", args.tr)));
    }
    Ok(json!({
        "model": "max-failure",
        "tr": args.tr, "k": args.k, "n": args.n,
        "f": conclone::tolerable_loss(args.k, args.tr, args.n),
    }))
}

/// Eq. 9 and 10.
fn interfaces(args: &InterfacesArgs) -> Result<Value, Failure> {
    let (lambda, alpha) = (args.lambda, args.alpha);
    if lambda * alpha > arguments::LIFETIMES_MAX {
        let what = format!(
            "--lambda {lambda} --alpha {alpha}: their product is {}, and more than e^{} interfaces are none",
            lambda * alpha,
            arguments::LIFETIMES_MAX
        );
        return Err(Failure::Usage(what));
    }
    let n = lifetime::interfaces_by_logarithm(lambda, alpha);
    Ok(json!({
        "model": "interfaces",
        "lambda": lambda, "alpha": alpha,
        "n": n,
        "lifetime_exact": lifetime::mean_lifetime(n, lambda),
        "lifetime_ln": f64::from(n).ln() / lambda,
        "n_exact": lifetime::interfaces_exactly(lambda, alpha),
    }))
}

/// Eq. 11 to 14 over distance.
fn channel(args: &ChannelArgs) -> Result<Value, Failure> {
    if args.from > args.to {
        return Err(Failure::Usage(format!("--from {}: is beyond --to {}", args.from, args.to)));
    }
    let radio = args.radio();
    let signal = args.signal.unwrap_or_else(|| radio.anchored_signal());
    let steps = ((args.to - args.from) / args.step + 1e-9).min(arguments::POINTS_MAX) as u32;
    let point = |n: u32| {
        let distance_m = args.from + f64::from(n) * args.step;
        let loss_db = channel::excess_path_loss_db(args.alpha, distance_m);
        let bit_error_rate = radio.bit_error_rate(signal * 10.0_f64.powf(-loss_db / 10.0));
        json!({
            "distance_m": distance_m,
            "path_loss_db": loss_db,
            "bit_error_rate": bit_error_rate,
            "frame_error": radio.frame_error(bit_error_rate),
            "packet_error": radio.packet_error_at(signal, args.alpha, distance_m),
        })
    };
    let points: Vec<Value> = (0..=steps).map(point).collect();
    Ok(json!({
        "model": "channel",
        "alpha": args.alpha,
        "signal": signal,
        "note": match args.signal {
            None => "path loss beyond that at 1 m; the signal is set so that 29 % of the packets are lost at 80 m, air to \
                     ground, the only point that the paper prints",
            Some(_) => "path loss beyond that at 1 m; the signal as given",
        },
        "points": points,
    }))
}

/// Eq. 15 and 16.
fn inertia(args: &InertiaArgs) -> Value {
    let [i_xx, i_yy, i_zz] = args.vehicle().inertia_with_interfaces(args.n);
    json!({"model": "inertia", "n": args.n, "rotor_kg": args.rotor_kg, "i_xx": i_xx, "i_yy": i_yy, "i_zz": i_zz})
}

/// Eq. 7 with the time of outages added.
fn outages(args: &OutagesArgs) -> Value {
    let (count, interval_s, n) = (args.messages.count, args.messages.interval, args.messages.n);
    let messages = Messages {
        count,
        interval_s,
        tr: conclone::completion_ratio(args.messages.k, args.messages.f, n),
    };
    let retry_s = args.retry_s.unwrap_or(conclone::failure_interval(args.messages.k, interval_s));
    let outages = outages::Outages { rate_hz: args.rate_hz, length_s: args.length_s, retry_s };
    let completion_s = outages.completion_s(&messages);
    json!({
        "model": "outages",
        "f": args.messages.f, "k": args.messages.k, "n": n, "count": count, "interval_s": interval_s,
        "rate_hz": args.rate_hz, "length_s": args.length_s, "retry_s": retry_s,
        "tr": messages.tr,
        "outage_cost_s": outages.cost_s(&messages),
        "outage_share": outages.share(),
        "total_undisturbed_s": messages.undisturbed_s(),
        "total_completion_s": completion_s.is_finite().then_some(completion_s),
        "explain": {
            "default_measured_s": 110.44,
            "conclone_measured_s": 68.17,
            "by_length": models::conclone::outages::explanations(retry_s),
        },
    })
}

/// Prints a result as JSON, or line by line.
fn show(output: &Output, result: &Value) -> Result<(), Failure> {
    if output.json {
        return Ok(print_json(result)?);
    }
    let Value::Object(fields) = result else { return Ok(()) };
    for (key, value) in fields.iter().filter(|(key, _)| *key != "model") {
        match value {
            Value::Object(inner) => {
                for (key, value) in inner {
                    line(key, value)?;
                }
            }
            _ => line(key, value)?,
        }
    }
    Ok(())
}

/// Prints a field; a list of objects as a table.
fn line(key: &str, value: &Value) -> Result<(), String> {
    let rows: Option<Vec<&serde_json::Map<String, Value>>> =
        value.as_array().and_then(|rows| rows.iter().map(Value::as_object).collect());
    let Some(rows) = rows.filter(|rows| !rows.is_empty()) else {
        return print(format_args!("{key:<22} {}", text(value)));
    };
    let titles: Vec<&String> = rows[0].keys().collect();
    let width = |title: &str| title.len().max(10);
    let cells = titles.iter().map(|title| format!("{title:>0$}", width(title)));
    print(cells.collect::<Vec<_>>().join("  "))?;
    for row in rows {
        let cell = |title: &&String| format!("{:>1$}", text(&row[*title]), width(title));
        print(titles.iter().map(cell).collect::<Vec<_>>().join("  "))?;
    }
    Ok(())
}

/// Writes a value for people.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        Value::Number(number) if number.is_f64() => {
            let value = number.as_f64().unwrap_or_default();
            match value.abs() {
                size if size > 0.0 && !(1e-3..1e4).contains(&size) => format!("{value:.3e}"),
                _ => format!("{value:.4}"),
            }
        }
        other => other.to_string(),
    }
}

/// Prints the one object that `--json` promises.
fn print_json(value: &impl Serialize) -> Result<(), String> {
    print(serde_json::to_string(value).map_err(|error| format!("write JSON: {error}"))?)
}

/// Says where a picture is.
fn told(path: &std::path::Path) {
    tell(format_args!("picture: {}", path.display()));
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn model(words: &str) -> Model {
        let words = ["fulmar-lab", "model"].into_iter().chain(words.split(' '));
        let Command::Model { model } = Cli::try_parse_from(words).expect("sound").command else {
            panic!("no model")
        };
        model
    }

    #[test]
    fn models_say_what_the_paper_prints() {
        let Model::Success(args) = model("success --f 0.1 --n 3") else { panic!("another") };
        let close = |value: &Value, expected: f64, half: f64| {
            let value = value.as_f64().expect("a number");
            assert!((value - expected).abs() <= half, "{value} is not {expected}");
        };
        close(&success(&args).expect("sound")["p_success"], 0.999, 5e-4);
        let Model::Success(args) = model("success --f 0.1,0.2 --f 0.5") else { panic!("another") };
        close(&success(&args).expect("sound")["p_success"], 0.99, 1e-12);
        for (n, seconds) in [(1, 86.702), (2, 65.906)] {
            let words =
                format!("completion --f 0.284 --k 1.122 --n {n} --count 120 --interval 0.5");
            let Model::Completion(args) = model(&words) else { panic!("another") };
            close(&completion(&args)["total_completion_s"], seconds, 5e-4);
        }
        for (n, f) in [(1, 0.0625), (2, 0.25), (3, 0.397)] {
            let words = format!("max-failure --tr 1.1 --k 1.5 --n {n}");
            let Model::MaxFailure(args) = model(&words) else { panic!("another") };
            close(&max_failure(&args).expect("sound")["f"], f, 5e-4);
        }
        for (lambda, alpha, n, exactly) in [(2, 0.6, 4, 2), (2, 0.8, 5, 3), (1, 0.8, 3, 1)] {
            let words = format!("interfaces --lambda {lambda} --alpha {alpha}");
            let Model::Interfaces(args) = model(&words) else { panic!("another") };
            let result = interfaces(&args).expect("sound");
            assert_eq!((&result["n"], &result["n_exact"]), (&json!(n), &json!(exactly)));
        }
        let Model::Inertia(args) = model("inertia --n 4") else { panic!("another") };
        close(&inertia(&args)["i_zz"], 0.0176, 5e-5);
        let asked = "inertia --n 3 --rotor-kg 0.05 --interface-kg 0.02 --total-kg 2 --arm-m 0.3 --body-radius-m 0.1";
        let Model::Inertia(args) = model(asked) else { panic!("another") };
        // 2/5·2.04·0.01 + 2·0.09·(0.05 + 0.02)
        close(&inertia(&args)["i_yy"], 0.00816 + 0.0126, 1e-12);
        let asked = "channel --from 50 --to 50 --signal 9000 --kappa-1 0.3 --kappa-2 1.2 --rho 4 --frame-bits 8000 --retries 2 --frames 3";
        let Model::Channel(args) = model(asked) else { panic!("another") };
        let bit = 0.3 * (-1.2 * 9000.0 * 50.0_f64.powf(-2.03) / 15.0).exp();
        let frame = 1.0 - (1.0 - bit).powf(8000.0);
        let point = channel(&args).expect("sound")["points"][0].clone();
        close(&point["bit_error_rate"], bit, 1e-12);
        close(&point["packet_error"], 1.0 - (1.0 - frame.powi(3)).powi(3), 1e-9);
        let Model::Channel(args) = model("channel --from 79 --to 81") else { panic!("another") };
        let result = channel(&args).expect("sound");
        assert_eq!(result["points"].as_array().map(Vec::len), Some(3));
        close(&result["points"][1]["packet_error"], 0.29, 5e-3);
    }

    #[test]
    fn outages_explain_what_equation_7_does_not() {
        let Model::Outages(args) = model("outages --n 1") else { panic!("another") };
        let result = outages(&args);
        let by_length = result["explain"]["by_length"].as_array().expect("a list");
        assert!(by_length.iter().all(|row| row["default_every_s"].as_f64() > Some(0.0)));
        assert_eq!(result["total_completion_s"], result["total_undisturbed_s"], "rate 0");
    }

    #[test]
    fn nonsense_is_refused() {
        let refused = |words: &str| run(&model(words)).is_err();
        assert!(refused("success --f 0.1,0.2 --n 3"));
        assert!(refused("max-failure --tr 1"));
        assert!(refused("interfaces --lambda 10 --alpha 10"));
        assert!(refused("channel --from 50 --to 10"));
        for words in
            ["success --f 1.5", "inertia --n 0", "completion --f 1", "outages --rate-hz -1"]
        {
            let words = ["fulmar-lab", "model"].into_iter().chain(words.split(' '));
            assert!(Cli::try_parse_from(words).is_err());
        }
    }

    #[test]
    fn pictures_are_drawn() {
        let folder = tempfile::tempdir().expect("a folder");
        for (words, file) in [
            ("success --f 0.1", "fig3-success.svg"),
            ("max-failure", "fig4-completion.svg"),
            ("interfaces", "fig7-interfaces.svg"),
            ("channel", "fig8-channel.svg"),
        ] {
            run(&model(&format!("{words} --json --out {}", folder.path().display())))
                .expect("drawn");
            let picture = std::fs::read_to_string(folder.path().join(file)).expect("written");
            assert!(picture.contains("<polyline") && !picture.contains("NaN"), "{file}");
        }
    }
}
