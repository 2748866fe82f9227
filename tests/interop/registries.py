"""registries.py EXPORT: each procedure of version 3 by pyNfsClient, through the port mapper of 127.0.0.1."""

import sys

import pyNfsClient as nfs

HOST, TIMEOUT_S = "127.0.0.1", 5
AUTH = {"flavor": 1, "machine_name": "here", "uid": 0, "gid": 0, "aux_gid": []}


def done(reply):
    assert reply["status"] == nfs.NFS3_OK, reply
    return reply.get("resok")


def names(listed):
    found, entry = set(), listed["reply"]["entries"]
    while entry:
        found.add(entry[0]["name"])
        entry = entry[0]["nextentry"]
    return found - {b".", b".."}


def main(export):
    mapper = nfs.Portmap(HOST, timeout=TIMEOUT_S)
    mapper.connect()
    port = mapper.getport(nfs.Mount.program, nfs.Mount.program_version)
    mount = nfs.Mount(host=HOST, port=port, timeout=TIMEOUT_S, auth=AUTH)
    mount.connect()
    root = mount.mnt(export, AUTH)["mountinfo"]["fhandle"]
    port = mapper.getport(nfs.NFS_PROGRAM, nfs.NFS_V3)
    server = nfs.NFSv3(HOST, port, TIMEOUT_S, auth=AUTH)
    server.connect()
    server.null()
    made = done(server.create(root, "file", create_mode=nfs.GUARDED, mode=0o644, auth=AUTH))
    file = made["obj"]["handle"]["data"]
    done(server.write(file, offset=0, count=11, content="hello world", stable_how=nfs.FILE_SYNC, auth=AUTH))
    assert done(server.read(file, offset=0, chunk_count=1024, auth=AUTH))["data"] == b"hello world"
    done(server.commit(file, offset=0, count=0, auth=AUTH))
    done(server.setattr(file, mode=0o600, size=5, mtime_flag=nfs.SET_TO_CLIENT_TIME, mtime_s=12345, mtime_us=0, auth=AUTH))
    attributes = server.getattr(file, AUTH)["attributes"]
    assert (attributes["size"], attributes["mode"], attributes["mtime"]["seconds"]) == (5, 0o600, 12345), attributes
    done(server.mkdir(root, "directory", mode=0o755, auth=AUTH))
    done(server.symlink(root, "link", "file", auth=AUTH))
    link = done(server.lookup(root, "link", AUTH))["object"]["data"]
    assert done(server.readlink(link, AUTH))["data"] == b"file"
    done(server.mknod(root, "pipe", ftype=nfs.NF3FIFO, mode=0o600, auth=AUTH))
    done(server.link(file, root, "hard", auth=AUTH))
    done(server.rename(root, "hard", root, "harder", auth=AUTH))
    done(server.access(root, 0x3F, AUTH))
    there = {b"file", b"harder", b"directory", b"link", b"pipe"}
    assert names(done(server.readdir(root, auth=AUTH))) == there
    assert names(done(server.readdirplus(root, auth=AUTH))) == there
    for whole in (server.fsstat, server.fsinfo, server.pathconf):
        done(whole(root, AUTH))
    for name in ("file", "harder", "link", "pipe"):
        done(server.remove(root, name, AUTH))
    done(server.rmdir(root, "directory", AUTH))
    assert [entry.ex_dir for entry in mount.export()] == [export.encode()]
    mount.umnt(AUTH)


main(sys.argv[1])
