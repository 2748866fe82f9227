//! `calls HOST:PORT EXPORT WHAT UID COUNT`: makes the call WHAT COUNT times in sequence over one
//! connection, so that a tracer on the server can count its system calls; see
//! `tests/speed/syscalls.sh`, which also lists the files that the export needs.

use bowline_client::{Client, Fh, Identity};
use proto::nfs3::{CreateHow3, Sattr3, StableHow};
use std::error::Error;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [addr, export, what, uid, count] = args.as_slice() else {
        return Err("HOST:PORT EXPORT WHAT UID COUNT".into());
    };
    let mut client = Client::tcp(addr.parse()?, Duration::from_secs(30))?;
    let uid = uid.parse()?;
    client.set_identity(Some(Identity::new(uid, uid)));
    let root = client.mount(export.as_bytes())?;
    let file = client.lookup(&root, b"f")?.handle;
    let dir = client.lookup(&root, b"dir")?.handle;
    let data = vec![7; 32 * 1024];
    for n in 0..count.parse::<u32>()? {
        once(&mut client, what, (&root, &file, &dir), &data, n)?;
    }
    Ok(())
}

fn once(
    client: &mut Client,
    what: &str,
    (root, file, dir): (&Fh, &Fh, &Fh),
    data: &[u8],
    n: u32,
) -> Result<(), Box<dyn Error>> {
    match what {
        "null" => client.null()?,
        "getattr" => drop(client.getattr(file)?),
        "access" => drop(client.access(file, 0x3f)?),
        "lookup" => drop(client.lookup(root, b"f")?),
        "lookup-none" => drop(client.lookup(root, b"none").err()),
        "read-4k" => drop(client.read(file, u64::from(n % 16) * 4096, 4096)?),
        "write-32k" => {
            client.write(file, u64::from(n % 2) * 32_768, data, StableHow::Unstable)?;
        }
        "create-remove" => {
            let name = format!("made{n}");
            client.create(dir, name.as_bytes(), CreateHow3::Guarded(Sattr3::default()))?;
            client.remove(dir, name.as_bytes())?;
        }
        "readdirplus-100" => drop(client.readdirplus(dir, 0, [0; 8], 65_536)?),
        other => return Err(format!("{other} is none of the calls").into()),
    }
    Ok(())
}
