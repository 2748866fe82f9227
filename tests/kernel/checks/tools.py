"""The programs that people run on a share: tar, cc, make, git, rsync, find."""

from check import ask, drop_caches, run, sh

PROGRAM = r"""
set -e
mkdir -p "$1/hello/src"
cd "$1/hello"
for n in $(seq 6); do
  printf 'int part%d(int x) { return x + %d; }\n' $n $n >src/part$n.c
done
{
  echo '#include <stdio.h>'
  for n in $(seq 6); do echo "int part$n(int);"; done
  echo 'int main(void) { int x = 0;'
  for n in $(seq 6); do echo "x = part$n(x);"; done
  echo 'printf("%d\n", x); return 0; }'
} >src/main.c
printf 'OBJ := $(patsubst %%.c,%%.o,$(wildcard src/*.c))\nhello: $(OBJ)\n\t$(CC) -o $@ $^\nclean:\n\trm -f hello $(OBJ)\n' >Makefile
cd ..
tar czf hello.tar.gz hello
"""


def build_a_c_program_from_a_tarball():
    sh("bash -c '%s' x /tmp" % PROGRAM.replace("'", "'\\''"))
    sh("tar xzf /tmp/hello.tar.gz && cd hello && make -j3 >/dev/null && test $(./hello) = 21")
    drop_caches()
    sh("cd hello && test $(./hello) = 21 && make -q hello && make clean >/dev/null && ! test -e hello")


def git_clone_and_status():
    sh("""
      export GIT_CONFIG_GLOBAL=/tmp/gitconfig GIT_CONFIG_NOSYSTEM=1
      git config --global user.email a@b.c; git config --global user.name n
      git config --global --add safe.directory '*'; git config --global init.defaultBranch main
      rm -rf /tmp/origin; git init -q /tmp/origin; cd /tmp/origin
      for n in $(seq 60); do mkdir -p d$((n % 7)); echo $n >d$((n % 7))/f$n; done
      git add .; git commit -qm one; echo more >>d1/f1; git commit -qam two
    """)
    sh("""
      export GIT_CONFIG_GLOBAL=/tmp/gitconfig GIT_CONFIG_NOSYSTEM=1
      git clone -q /tmp/origin c; cd c; test -z "$(git status --porcelain)"
      echo change >>d2/f2; test "$(git status --porcelain)" = " M d2/f2"
      git commit -qam three; git gc -q; git fsck --strict; git log --oneline | wc -l | grep -qx 3
      git checkout -q HEAD~2; git checkout -q main; test -z "$(git status --porcelain)"
    """)


def rsync_a_tree_there_and_back():
    sh("""
      rm -rf /tmp/tree /tmp/back; mkdir -p /tmp/tree/a/b/c /tmp/tree/empty; cd /tmp/tree
      for n in $(seq 40); do head -c $((n * 997)) /dev/urandom >a/f$n; done
      ln -s a/f1 link; ln a/f2 a/b/hard; mkfifo a/b/c/pipe; chmod 4711 a/f3; chown 12:34 a/f4
      # rsync leaves what was made in the same second as its copy: nothing may be that new
      find . -depth -exec touch -h -d '2003-02-01 04:05:06.7' {} +
      touch -d '2001-02-03 04:05:06.789' a/f5; touch -d '2100-12-31 12:00' a/f6
      touch -d '1980-01-01' a/b
    """)
    sh("rsync -aH /tmp/tree/ there/")
    drop_caches()
    sh("rsync -aHc --delete there/ /tmp/back/")
    sh("test -z \"$(rsync -aHcn -i --delete /tmp/tree/ /tmp/back/)\"; diff -r --no-dereference "
       "-x pipe /tmp/tree /tmp/back; test /tmp/back/a/b/hard -ef /tmp/back/a/f2")
    listing = "find . -mindepth 1 -printf '%P %y %m %U:%G %n %T@ %l\\n' | sort"
    there = sh("cd there; " + listing)
    assert there == sh("cd /tmp/tree; " + listing)
    assert there == ask("cd a/rsync_a_tree_there_and_back/there; " + listing)


def find_and_copy_and_remove():
    sh("cp -a /etc/apt tree; find tree -type f | wc -l; rm -rf tree; test -z \"$(ls -A)\"")


run([build_a_c_program_from_a_tarball, git_clone_and_status, rsync_a_tree_there_and_back, find_and_copy_and_remove])
