//! The `nfs3_client` crate as a judge: a client of NFS version 3 that nobody here wrote.

use crate::rig::{NOBODY, Server, is_root};
use nfs3_client::Nfs3ConnectionBuilder;
use nfs3_client::nfs3_types::nfs3::{
    CREATE3args, GETATTR3args, LOOKUP3args, Nfs3Option, READ3args, READDIR3args, REMOVE3args,
    WRITE3args, cookieverf3, createhow3, diropargs3, filename3, sattr3, stable_how,
};
use nfs3_client::nfs3_types::xdr_codec::Opaque;
use nfs3_client::tokio::TokioConnector;

/// A server that takes clients from any port, and lets everybody write.
fn server() -> Server {
    if is_root() { Server::start_as(Some(NOBODY), &[]) } else { Server::start(&[]) }
}

fn name(text: &str) -> filename3<'_> {
    filename3(Opaque::borrowed(text.as_bytes()))
}

#[test]
fn nfs3_client_mounts_lists_writes_reads_and_removes() {
    let server = server();
    let export = server.served().to_str().unwrap().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut nfs = Nfs3ConnectionBuilder::new(TokioConnector, "127.0.0.1", &export)
            .connect_from_privileged_port(false)
            .mount_port(server.port)
            .nfs3_port(server.port)
            .mount()
            .await
            .unwrap();
        let root = nfs.root_nfs_fh3();

        let object = nfs.getattr(&GETATTR3args { object: root.clone() }).await.unwrap().unwrap();
        assert_eq!(object.obj_attributes.nlink, 2);

        let what = diropargs3 { dir: root.clone(), name: name("hello.txt") };
        let found = nfs.lookup(&LOOKUP3args { what }).await.unwrap().unwrap();
        let read = READ3args { file: found.object, offset: 0, count: 100 };
        let read = nfs.read(&read).await.unwrap().unwrap();
        assert_eq!((read.data.as_ref(), read.eof), (&b"hello, world\n"[..], true));

        let place = diropargs3 { dir: root.clone(), name: name("new") };
        let how = createhow3::GUARDED(sattr3::default());
        let made = CREATE3args { where_: place, how };
        let made = nfs.create(&made).await.unwrap().unwrap();
        let Nfs3Option::Some(file) = made.obj else { panic!("no handle") };
        let data = Opaque::borrowed(b"written from afar");
        let write = WRITE3args { file, offset: 3, count: 17, stable: stable_how::FILE_SYNC, data };
        let written = nfs.write(&write).await.unwrap().unwrap();
        assert_eq!((written.count, written.committed), (17, stable_how::FILE_SYNC));
        let bytes = std::fs::read(server.served().join("new")).unwrap();
        assert_eq!(bytes, b"\0\0\0written from afar");

        let list = READDIR3args {
            dir: root.clone(),
            cookie: 0,
            cookieverf: cookieverf3::default(),
            count: 4096,
        };
        let list = nfs.readdir(&list).await.unwrap().unwrap();
        let mut names: Vec<Vec<u8>> =
            list.reply.entries.0.iter().map(|e| e.name.0.as_ref().to_vec()).collect();
        names.sort();
        assert_eq!(names, [&b"."[..], b"..", b"hello.txt", b"new"]);
        assert!(list.reply.eof);

        let object = diropargs3 { dir: root, name: name("new") };
        nfs.remove(&REMOVE3args { object }).await.unwrap().unwrap();
        assert!(!server.served().join("new").exists());
    });
}
