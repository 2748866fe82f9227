//! What the process gives up before it serves, and how that is told.

use crate::settings::Sandbox;
use anyhow::Context;
use sys::sandbox::{Confined, confine};

/// Gives up what the setting says, for the calling thread and those that it starts; in words, for the status.
///
/// # Errors
/// The kernel does not let the process give up what it has.
pub fn apply(sandbox: Sandbox, privileged: bool) -> anyhow::Result<String> {
    match sandbox {
        Sandbox::Auto => {
            let confined = confine().context(
                "the kernel does not let this process give up its privileges; --set sandbox=off serves with them",
            )?;
            Ok(words(confined))
        }
        Sandbox::Off => {
            // quotas and reserved blocks have to hold for clients in any case
            if privileged {
                sys::identity::drop_resource_capability()
                    .context("cannot drop CAP_SYS_RESOURCE")?;
            }
            Ok("off".to_owned())
        }
    }
}

fn words(confined: Confined) -> String {
    let Confined { capabilities, refused_calls } = confined;
    let calls = match refused_calls {
        Some(calls) => format!("{calls} system calls refused or restricted"),
        None => "the kernel takes no filter of system calls".to_owned(),
    };
    format!("{capabilities} capabilities and no more, {calls}")
}

#[cfg(test)]
mod tests {
    use super::words;
    use sys::sandbox::Confined;

    #[test]
    fn what_is_in_force_is_said() {
        let all = words(Confined { capabilities: 12, refused_calls: Some(60) });
        assert_eq!(all, "12 capabilities and no more, 60 system calls refused or restricted");
        let no_filter = words(Confined { capabilities: 0, refused_calls: None });
        assert!(no_filter.contains("0 capabilities") && no_filter.contains("no filter"));
    }
}
