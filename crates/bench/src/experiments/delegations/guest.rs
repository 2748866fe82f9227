//! The programs themselves, run by the guest of the repository's kernel tests (`tests/kernel`).

use super::Measured;
use crate::experiments::{RunContext, RunError};
use std::path::Path;
use std::process::{Command, Stdio};

/// Where the rig is, from the repository's directory.
const RIG: &str = "tests/kernel";
/// What the guest prints before each result.
const MARK: &str = "measured ";
/// A limit for the guest, and what each round adds, in seconds.
const START_S: u32 = 120;
const ROUND_S: u32 = 120;

/// What the guest has measured, or why it could not.
///
/// # Errors
/// [`RunError::Stopped`].
pub(super) fn measure(
    ctx: &RunContext<'_>,
    rounds: u32,
) -> Result<Result<Vec<Measured>, String>, RunError> {
    ctx.go_on()?;
    let rig = match Path::new(RIG).canonicalize() {
        Ok(rig) if Path::new("/dev/net/tun").exists() => rig,
        Ok(_) => return Ok(Err("there is no /dev/net/tun for a guest".into())),
        Err(_) => return Ok(Err("the guest is started in the repository only".into())),
    };
    if !sys::identity::own().is_ok_and(|own| own.uid == 0) {
        return Ok(Err("only root may start a guest".into()));
    }
    (ctx.say)(&format!("delegations: a guest runs the programs, {rounds} rounds"));
    let (shown, bowline) = (rig.display(), ctx.bowline.display());
    let server = format!("{shown}/server.sh {bowline} ext4 --set versions=4.2");
    let limit_s = START_S + rounds * ROUND_S;
    let output = Command::new(rig.join("kernel-client.sh"))
        .args(["-n", "1", "-t", &limit_s.to_string(), &server])
        .arg(rig.join("guest.sh"))
        .args(["delegations_save", "vers=4.2"])
        .env("LOCK_ROUNDS", rounds.to_string())
        .stdin(Stdio::null())
        .output()?;
    ctx.go_on()?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let last = text.lines().last().unwrap_or("it printed nothing");
        return Ok(Err(format!("the guest failed ({}): {last}", output.status)));
    }
    Ok(parse(&text))
}

fn parse(text: &str) -> Result<Vec<Measured>, String> {
    let lines = text.lines().filter_map(|line| line.trim_end().strip_prefix(MARK));
    let all: Result<Vec<Measured>, _> = lines.map(serde_json::from_str).collect();
    match all {
        Ok(all) if all.is_empty() => Err("the guest has measured nothing".into()),
        Ok(all) => Ok(all),
        Err(error) => Err(format!("what the guest printed: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn what_the_guest_prints_is_read() {
        let text = "ok something\r\nmeasured {\"program\": \"git status\", \"delegations\": \"off\", \"round\": 1, \
                    \"calls\": 44, \"seconds\": 0.25}\r\n";
        let all = parse(text).unwrap();
        let [one] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!(
            (one.program.as_str(), one.delegations.as_str(), one.round),
            ("git status", "off", 1)
        );
        assert!((one.calls - 44.0).abs() < 1e-9 && (one.seconds - 0.25).abs() < 1e-9);
        assert!(parse("ok nothing").is_err() && parse("measured x").is_err());
    }
}
