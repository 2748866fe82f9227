# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_bowline_global_optspecs
    string join \n h/help V/version
end

function __fish_bowline_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_bowline_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_bowline_using_subcommand
    set -l cmd (__fish_bowline_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c bowline -n "__fish_bowline_needs_command" -s h -l help -d 'Print help'
complete -c bowline -n "__fish_bowline_needs_command" -s V -l version -d 'Print version'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "serve" -d 'Serve directories until SIGTERM or Ctrl-C'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "status" -d 'Show the state of the server'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "exports" -d 'Show the exports and their clients'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "clients" -d 'Show current and recent clients'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "conns" -d 'Show the connections'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "locks" -d 'Show the locks that clients hold or wait for, and share reservations'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "sessions" -d 'Show the sessions of clients of NFS version 4.1'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "opens" -d 'Show the files that clients have open over NFS version 4.1'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "release" -d 'Take all locks from a client, or of a file'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "sockets" -d 'Show the listening and UDP sockets'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "pools" -d 'Show the thread pools'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "ops" -d 'Show calls, errors and latencies of each procedure'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "top" -d 'Show what the server does now: calls and bytes per second, latencies, and who causes them'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "metrics" -d 'Print the metrics of the running server, in Prometheus\' text format'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "set" -d 'Change a setting of the running server'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "token" -d 'Print the token that lets the web page of the running server change settings'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "get" -d 'Show settings of the running server'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "grace" -d 'Show the grace period after a restart, or end it'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "reload" -d 'Read the exports again and apply all of them, or none if one is wrong'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "exportfs" -d 'Change and list exports as exportfs(8) does, for scripts that call that'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "check" -d 'Check exports(5) files or a configuration file, without a server'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "doctor" -d 'Look at this machine as a server of NFS, and say what to do'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "tls" -d 'Make certificates for RPC with TLS'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "explain" -d 'Say which export, rule and permission decide whether a client and a user may use a path'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "why" -d 'Show what was refused in the last hour, and why'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "bench" -d 'Measure NFS servers: loads, experiments, reports'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "man" -d 'Write the man pages into a directory'
complete -c bowline -n "__fish_bowline_needs_command" -f -a "completions" -d 'Print the completion script for a shell'
complete -c bowline -n "__fish_bowline_using_subcommand serve" -l listen -d 'Listen on this IPv4 or IPv6 address; 0.0.0.0 or :: means all; may be repeated [default: 127.0.0.1]' -r
complete -c bowline -n "__fish_bowline_using_subcommand serve" -l port -d 'Port for NFS and MOUNT over TCP and UDP [default: 2049]' -r
complete -c bowline -n "__fish_bowline_using_subcommand serve" -l client -d 'Who may mount the directories named on the command line: an address, a network (10.0.0.0/8), a host name with wildcards, @netgroup, or * for everybody; may be repeated. An exports file names its own clients [default: this machine only]' -r
complete -c bowline -n "__fish_bowline_using_subcommand serve" -l exports -d 'Also export what this exports(5) file names. A directory, for example /etc/exports.d, stands for its files whose names end in .exports and do not begin with a dot, sorted by name; may be repeated' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand serve" -l config -d 'Read options from this TOML file; the command line takes precedence' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand serve" -l portmap -d 'How clients that ask a portmapper find the server [default: auto]' -r -f -a "auto\t'Register with a running rpcbind. Without one, answer port 111 if other machines can reach the server and the port is free'
register\t'Register with the running rpcbind, or fail'
serve\t'Answer port 111, or fail'
off\t'Neither: clients must be told the port'"
complete -c bowline -n "__fish_bowline_using_subcommand serve" -l state-dir -d 'Keep the file handle key, export ids and name tables here; must survive restarts [default: /var/lib/bowline, for an ordinary user $XDG_STATE_HOME/bowline or ~/.local/state/bowline]' -r -f -a "(__fish_complete_directories)"
complete -c bowline -n "__fish_bowline_using_subcommand serve" -l control -d 'Path of the control socket [default: /run/bowline/control.sock, for an ordinary user $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand serve" -l metrics -d 'Serve metrics in Prometheus\' and OpenMetrics\' format at http://ADDR/metrics, and a web page with live figures at http://ADDR/, for example 127.0.0.1:9049. Whoever reaches the address can read them: paths of exports and files, clients, load; settings can be changed there from this machine with `bowline token`' -r
complete -c bowline -n "__fish_bowline_using_subcommand serve" -l tls-cert -d 'The server\'s certificate for RPC with TLS, and behind it those up to its authority, in PEM; `bowline tls init` makes one' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand serve" -l tls-key -d 'Its private key, in PEM, which nobody but its owner may read' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand serve" -l tls-client-ca -d 'Authorities whose certificates make clients known (xprtsec=mtls): a file in PEM, or a directory of such' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand serve" -l tls-crl -d 'Certificates of clients that were revoked: a list (CRL) in PEM, or a directory of such' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand serve" -l set -d 'Start with this run-time setting, see bowline-settings(7); may be repeated' -r -f -a "threads=\t'fewest and most threads that process calls'
export-threads=\t'share of all threads that may be blocked in one export'
pool-mode=\t'how many pools of threads there are, and which CPUs share one'
wake-policy=\t'which threads are woken for a call'
udp-sockets=\t'how many UDP sockets there are on each address, if any'
udp-buffer=\t'size of the receive and the send buffer of each UDP socket'
zero-copy=\t'whether READ sends file pages without copying them, and large WRITEs go through a pipe'
tcp-rcvbuf=\t'smallest receive buffer of a connection; for some connections with tcp-rcvbuf@NETWORK or tcp-rcvbuf@/EXPORT'
tcp-sndbuf=\t'smallest send buffer of a connection; for some connections with tcp-sndbuf@NETWORK or tcp-sndbuf@/EXPORT'
tcp-congestion=\t'congestion control of connections'
versions=\t'versions of NFS that are served'
max-read=\t'largest READ that is offered to new mounts'
max-write=\t'largest WRITE that is offered to new mounts'
local-locks=\t'whether locks of clients and fcntl(2) locks of programs on this machine exclude each other'
grace=\t'longest time after a restart in which clients reclaim their locks and nobody gets new ones'
lease=\t'how long the server waits for a sign of life of a client of version 4 before others may have what it holds'
nsm=\t'whether the server hears of reboots of clients that hold locks, and tells them of its own restarts'
keytab=\t'where the server\'s Kerberos keys are, for exports with sec=krb5, krb5i or krb5p'
principals=\t'a file that says which Kerberos principal is which user'
gss-sealing=\t'who signs and encrypts Kerberos messages (krb5, krb5i, krb5p)'
memory=\t'most memory for calls that are being received and replies that clients have not taken'
audit=\t'a file in which it is recorded who removes, renames and changes attributes'
audit-size=\t'size from which on the file of audit is renamed and a new one begun'
audit-files=\t'how many full files of audit are kept, as PATH.1, PATH.2 and so on'
tls=\t'whether calls are refused that do not come through TLS'
tls-handshake-threads=\t'threads that make TLS handshakes'
log-level=\t'least severity of messages that are logged'"
complete -c bowline -n "__fish_bowline_using_subcommand serve" -l read-only -d 'Make all exports read-only, whatever the exports file says'
complete -c bowline -n "__fish_bowline_using_subcommand serve" -l prove -d 'After the start, mount the first export over the network, list it, read one file and compare it with the disk, and print the result'
complete -c bowline -n "__fish_bowline_using_subcommand serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c bowline -n "__fish_bowline_using_subcommand status" -l watch -d 'Print it again every N seconds, until Ctrl-C' -r
complete -c bowline -n "__fish_bowline_using_subcommand status" -l control -d 'Control socket of the server [default: /run/bowline/control.sock, for an ordinary user $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand status" -s v -l verbose -d 'Also print the counters for developers, see bowline-counters(7)'
complete -c bowline -n "__fish_bowline_using_subcommand status" -l json -d 'Print JSON, for programs'
complete -c bowline -n "__fish_bowline_using_subcommand status" -s h -l help -d 'Print help'
complete -c bowline -n "__fish_bowline_using_subcommand exports" -l watch -d 'Print it again every N seconds, until Ctrl-C' -r
complete -c bowline -n "__fish_bowline_using_subcommand exports" -l control -d 'Control socket of the server [default: /run/bowline/control.sock, for an ordinary user $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand exports" -l json -d 'Print JSON, for programs'
complete -c bowline -n "__fish_bowline_using_subcommand exports" -s h -l help -d 'Print help'
complete -c bowline -n "__fish_bowline_using_subcommand clients" -l watch -d 'Print it again every N seconds, until Ctrl-C' -r
complete -c bowline -n "__fish_bowline_using_subcommand clients" -l control -d 'Control socket of the server [default: /run/bowline/control.sock, for an ordinary user $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand clients" -l json -d 'Print JSON, for programs'
complete -c bowline -n "__fish_bowline_using_subcommand clients" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c bowline -n "__fish_bowline_using_subcommand conns" -l watch -d 'Print it again every N seconds, until Ctrl-C' -r
complete -c bowline -n "__fish_bowline_using_subcommand conns" -l control -d 'Control socket of the server [default: /run/bowline/control.sock, for an ordinary user $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand conns" -l json -d 'Print JSON, for programs'
complete -c bowline -n "__fish_bowline_using_subcommand conns" -s h -l help -d 'Print help'
complete -c bowline -n "__fish_bowline_using_subcommand locks" -l watch -d 'Print it again every N seconds, until Ctrl-C' -r
complete -c bowline -n "__fish_bowline_using_subcommand locks" -l control -d 'Control socket of the server [default: /run/bowline/control.sock, for an ordinary user $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand locks" -l json -d 'Print JSON, for programs'
complete -c bowline -n "__fish_bowline_using_subcommand locks" -s h -l help -d 'Print help'
complete -c bowline -n "__fish_bowline_using_subcommand sessions" -l watch -d 'Print it again every N seconds, until Ctrl-C' -r
complete -c bowline -n "__fish_bowline_using_subcommand sessions" -l control -d 'Control socket of the server [default: /run/bowline/control.sock, for an ordinary user $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand sessions" -l json -d 'Print JSON, for programs'
complete -c bowline -n "__fish_bowline_using_subcommand sessions" -s h -l help -d 'Print help'
complete -c bowline -n "__fish_bowline_using_subcommand opens" -l watch -d 'Print it again every N seconds, until Ctrl-C' -r
complete -c bowline -n "__fish_bowline_using_subcommand opens" -l control -d 'Control socket of the server [default: /run/bowline/control.sock, for an ordinary user $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand opens" -l json -d 'Print JSON, for programs'
complete -c bowline -n "__fish_bowline_using_subcommand opens" -s h -l help -d 'Print help'
complete -c bowline -n "__fish_bowline_using_subcommand release" -l control -d 'Control socket of the server [default: /run/bowline/control.sock, for an ordinary user $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand release" -l json -d 'Print JSON, for programs'
complete -c bowline -n "__fish_bowline_using_subcommand release" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c bowline -n "__fish_bowline_using_subcommand sockets" -l watch -d 'Print it again every N seconds, until Ctrl-C' -r
complete -c bowline -n "__fish_bowline_using_subcommand sockets" -l control -d 'Control socket of the server [default: /run/bowline/control.sock, for an ordinary user $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand sockets" -l json -d 'Print JSON, for programs'
complete -c bowline -n "__fish_bowline_using_subcommand sockets" -s h -l help -d 'Print help'
complete -c bowline -n "__fish_bowline_using_subcommand pools" -l watch -d 'Print it again every N seconds, until Ctrl-C' -r
complete -c bowline -n "__fish_bowline_using_subcommand pools" -l control -d 'Control socket of the server [default: /run/bowline/control.sock, for an ordinary user $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand pools" -l json -d 'Print JSON, for programs'
complete -c bowline -n "__fish_bowline_using_subcommand pools" -s h -l help -d 'Print help'
complete -c bowline -n "__fish_bowline_using_subcommand ops" -l watch -d 'Print it again every N seconds, until Ctrl-C' -r
complete -c bowline -n "__fish_bowline_using_subcommand ops" -l control -d 'Control socket of the server [default: /run/bowline/control.sock, for an ordinary user $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand ops" -l json -d 'Print JSON, for programs'
complete -c bowline -n "__fish_bowline_using_subcommand ops" -s h -l help -d 'Print help'
complete -c bowline -n "__fish_bowline_using_subcommand top" -l view -d 'Begin with this view' -r -f -a "clients\t'Clients, by address'
exports\t'Exports'
operations\t'Procedures'
connections\t'TCP connections, and what limits each'
pools\t'Pools of threads'
calls\t'Calls that sleep in a file system, the oldest first'"
complete -c bowline -n "__fish_bowline_using_subcommand top" -l interval -d 'The time between two updates, in seconds' -r
complete -c bowline -n "__fish_bowline_using_subcommand top" -l control -d 'Control socket of the server [default: /run/bowline/control.sock, for an ordinary user $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand top" -l once -d 'Print the figures of one interval as text and end'
complete -c bowline -n "__fish_bowline_using_subcommand top" -l json -d 'With --once: print JSON, for programs'
complete -c bowline -n "__fish_bowline_using_subcommand top" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c bowline -n "__fish_bowline_using_subcommand metrics" -l control -d 'Control socket of the server [default: /run/bowline/control.sock, for an ordinary user $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand metrics" -l openmetrics -d 'Print them in the format of OpenMetrics'
complete -c bowline -n "__fish_bowline_using_subcommand metrics" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c bowline -n "__fish_bowline_using_subcommand set" -l control -d 'Control socket of the server [default: /run/bowline/control.sock, for an ordinary user $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand set" -l json -d 'Print JSON, for programs'
complete -c bowline -n "__fish_bowline_using_subcommand set" -s h -l help -d 'Print help'
complete -c bowline -n "__fish_bowline_using_subcommand token" -l control -d 'Control socket of the server [default: /run/bowline/control.sock, for an ordinary user $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand token" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c bowline -n "__fish_bowline_using_subcommand get" -l control -d 'Control socket of the server [default: /run/bowline/control.sock, for an ordinary user $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand get" -l json -d 'Print JSON, for programs'
complete -c bowline -n "__fish_bowline_using_subcommand get" -s h -l help -d 'Print help'
complete -c bowline -n "__fish_bowline_using_subcommand grace" -l control -d 'Control socket of the server [default: /run/bowline/control.sock, for an ordinary user $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand grace" -l json -d 'Print JSON, for programs'
complete -c bowline -n "__fish_bowline_using_subcommand grace" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c bowline -n "__fish_bowline_using_subcommand reload" -l control -d 'Control socket of the server [default: /run/bowline/control.sock, for an ordinary user $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand reload" -l dry-run -d 'Only print what would change'
complete -c bowline -n "__fish_bowline_using_subcommand reload" -l json -d 'Print JSON, for programs'
complete -c bowline -n "__fish_bowline_using_subcommand reload" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c bowline -n "__fish_bowline_using_subcommand exportfs" -s o -d 'Options of the exports that are named, as in exports(5)' -r
complete -c bowline -n "__fish_bowline_using_subcommand exportfs" -l control -d 'Control socket of the server [default: /run/bowline/control.sock, for an ordinary user $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand exportfs" -s a -d 'Export everything that the exports files name; with -u, end all exports'
complete -c bowline -n "__fish_bowline_using_subcommand exportfs" -s r -d 'Read the exports files again, and end what they do not name: bowline reload'
complete -c bowline -n "__fish_bowline_using_subcommand exportfs" -s u -d 'End exports'
complete -c bowline -n "__fish_bowline_using_subcommand exportfs" -s i -d 'Only use the options of -o; it is always so'
complete -c bowline -n "__fish_bowline_using_subcommand exportfs" -s f -d 'Have the server forget what it has asked about exports; it always knows what is in force'
complete -c bowline -n "__fish_bowline_using_subcommand exportfs" -s v -d 'List with options; with changes, print them'
complete -c bowline -n "__fish_bowline_using_subcommand exportfs" -s s -d 'List in the format of an exports file'
complete -c bowline -n "__fish_bowline_using_subcommand exportfs" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c bowline -n "__fish_bowline_using_subcommand check" -l for-host -d 'Also print what this host gets of each export: the rule that applies to it and its options, and the name by which rules know it' -r -f -a "(__fish_print_hostnames)"
complete -c bowline -n "__fish_bowline_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c bowline -n "__fish_bowline_using_subcommand doctor; and not __fish_seen_subcommand_from tls krb5" -l port -d 'The port that is to be served' -r
complete -c bowline -n "__fish_bowline_using_subcommand doctor; and not __fish_seen_subcommand_from tls krb5" -l json -d 'Print JSON, for programs'
complete -c bowline -n "__fish_bowline_using_subcommand doctor; and not __fish_seen_subcommand_from tls krb5" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c bowline -n "__fish_bowline_using_subcommand doctor; and not __fish_seen_subcommand_from tls krb5" -a "tls" -d 'Look at RPC with TLS of a server as its client: the probe, the handshake, the certificate'
complete -c bowline -n "__fish_bowline_using_subcommand doctor; and not __fish_seen_subcommand_from tls krb5" -a "krb5" -d 'Look at Kerberos on this machine: keytab, names, encryption types, clock, KDC, users'
complete -c bowline -n "__fish_bowline_using_subcommand doctor; and __fish_seen_subcommand_from tls" -l port -d 'The port' -r
complete -c bowline -n "__fish_bowline_using_subcommand doctor; and __fish_seen_subcommand_from tls" -l ca -d 'Authorities that the client knows [default: ca.pem of `bowline tls init`, if there is one here]' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand doctor; and __fish_seen_subcommand_from tls" -l json -d 'Print JSON, for programs'
complete -c bowline -n "__fish_bowline_using_subcommand doctor; and __fish_seen_subcommand_from tls" -s h -l help -d 'Print help'
complete -c bowline -n "__fish_bowline_using_subcommand doctor; and __fish_seen_subcommand_from krb5" -l name -d 'A name by which clients mount this server; may be repeated [default: the name of this machine]' -r -f -a "(__fish_print_hostnames)"
complete -c bowline -n "__fish_bowline_using_subcommand doctor; and __fish_seen_subcommand_from krb5" -l user -d 'A principal whose user and groups are to be shown, as alice@EXAMPLE.ORG; may be repeated' -r
complete -c bowline -n "__fish_bowline_using_subcommand doctor; and __fish_seen_subcommand_from krb5" -l keytab -d 'The keytab, as the setting' -r
complete -c bowline -n "__fish_bowline_using_subcommand doctor; and __fish_seen_subcommand_from krb5" -l principals -d 'The table of principals, as the setting' -r
complete -c bowline -n "__fish_bowline_using_subcommand doctor; and __fish_seen_subcommand_from krb5" -l json -d 'Print JSON, for programs'
complete -c bowline -n "__fish_bowline_using_subcommand doctor; and __fish_seen_subcommand_from krb5" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c bowline -n "__fish_bowline_using_subcommand tls; and not __fish_seen_subcommand_from init client" -s h -l help -d 'Print help'
complete -c bowline -n "__fish_bowline_using_subcommand tls; and not __fish_seen_subcommand_from init client" -f -a "init" -d 'Make a private authority, if there is none, and the server\'s certificate'
complete -c bowline -n "__fish_bowline_using_subcommand tls; and not __fish_seen_subcommand_from init client" -f -a "client" -d 'Make the certificate of a client, for exports with xprtsec=mtls'
complete -c bowline -n "__fish_bowline_using_subcommand tls; and __fish_seen_subcommand_from init" -l dir -d 'The directory of the files [default: tls in the state directory]' -r -f -a "(__fish_complete_directories)"
complete -c bowline -n "__fish_bowline_using_subcommand tls; and __fish_seen_subcommand_from init" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c bowline -n "__fish_bowline_using_subcommand tls; and __fish_seen_subcommand_from client" -l dir -d 'The directory of the authority [default: tls in the state directory]' -r -f -a "(__fish_complete_directories)"
complete -c bowline -n "__fish_bowline_using_subcommand tls; and __fish_seen_subcommand_from client" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c bowline -n "__fish_bowline_using_subcommand explain" -l group -d 'A group of the user, by number, the primary one first; may be repeated' -r
complete -c bowline -n "__fish_bowline_using_subcommand explain" -l port -d 'The port that the client sends from' -r
complete -c bowline -n "__fish_bowline_using_subcommand explain" -l sec -d 'The flavour that the client mounts with (sec=) [default: sys; with --principal the first of Kerberos]' -r -f -a "none\t''
sys\t''
krb5\t''
krb5i\t''
krb5p\t''"
complete -c bowline -n "__fish_bowline_using_subcommand explain" -l principal -d 'The Kerberos principal of the user, in place of the number' -r
complete -c bowline -n "__fish_bowline_using_subcommand explain" -l xprtsec -d 'The transport that the client mounts with (xprtsec=)' -r -f -a "none\t''
tls\t''
mtls\t''"
complete -c bowline -n "__fish_bowline_using_subcommand explain" -l certificate -d 'A name in the client\'s certificate' -r
complete -c bowline -n "__fish_bowline_using_subcommand explain" -l control -d 'Control socket of the server [default: /run/bowline/control.sock, for an ordinary user $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand explain" -l json -d 'Print JSON, for programs'
complete -c bowline -n "__fish_bowline_using_subcommand explain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c bowline -n "__fish_bowline_using_subcommand why" -l watch -d 'Print it again every N seconds, until Ctrl-C' -r
complete -c bowline -n "__fish_bowline_using_subcommand why" -l control -d 'Control socket of the server [default: /run/bowline/control.sock, for an ordinary user $XDG_RUNTIME_DIR/bowline.sock or /tmp/bowline-UID/control.sock]' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand why" -l json -d 'Print JSON, for programs'
complete -c bowline -n "__fish_bowline_using_subcommand why" -s h -l help -d 'Print help'
complete -c bowline -n "__fish_bowline_using_subcommand bench; and not __fish_seen_subcommand_from list run load compare report mktree canned" -s h -l help -d 'Print help'
complete -c bowline -n "__fish_bowline_using_subcommand bench; and not __fish_seen_subcommand_from list run load compare report mktree canned" -f -a "list" -d 'List the experiments'
complete -c bowline -n "__fish_bowline_using_subcommand bench; and not __fish_seen_subcommand_from list run load compare report mktree canned" -f -a "run" -d 'Run an experiment, or all of them, and write the results'
complete -c bowline -n "__fish_bowline_using_subcommand bench; and not __fish_seen_subcommand_from list run load compare report mktree canned" -f -a "load" -d 'Generate a load on any NFS server and measure the replies'
complete -c bowline -n "__fish_bowline_using_subcommand bench; and not __fish_seen_subcommand_from list run load compare report mktree canned" -f -a "compare" -d 'Run the same loads alternately on Bowline and another server'
complete -c bowline -n "__fish_bowline_using_subcommand bench; and not __fish_seen_subcommand_from list run load compare report mktree canned" -f -a "report" -d 'Make one HTML page of the results of a run'
complete -c bowline -n "__fish_bowline_using_subcommand bench; and not __fish_seen_subcommand_from list run load compare report mktree canned" -f -a "mktree" -d 'Make the tree of the walk experiment: 10,841 directories and 161,480 files'
complete -c bowline -n "__fish_bowline_using_subcommand bench; and not __fish_seen_subcommand_from list run load compare report mktree canned" -f -a "canned" -d 'Answer every call with a canned reply, as the lower bound in comparisons'
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from list" -l json -d 'Print JSON, for programs'
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from run" -l out -d 'Write results and the report here' -r -f -a "(__fish_complete_directories)"
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from run" -l quick -d 'Fewer and shorter rounds: all experiments in under 5 minutes, with more spread'
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -l server -d 'The server; several addresses, separated by commas, are its interfaces' -r
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -l export -d 'The export to mount' -r
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -l workload -d 'null, getattr, access, lookup, readdir, readdirplus, walk, read, write, create, untar, mixed, lock (LOCK and UNLOCK of NLM 4), replay' -r
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -l calls -d 'For `replay`: the recorded calls, one line each: OPERATION PATH [OFFSET COUNT]' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -l proto -d 'tcp or udp' -r
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -l vers -d 'NFS version' -r
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -l clients -d 'Simulated clients, each with its own socket and user' -r
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -l depth -d 'Calls in progress for each client' -r
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -l seconds -d 'Measured time in seconds' -r
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -l warmup -d 'Time before the measurement in seconds' -r
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -l rate -d 'Calls per second of all clients together, even if the server cannot keep up (open loop; latency counts from the time when a call was due) [default: as fast as the server answers]' -r
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -l size -d 'Bytes of a READ, a WRITE or a directory listing, for example 4K or 1M' -r
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -l files -d 'Backends that `read` reads' -r
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -l file-size -d 'Bytes of each file, read or written' -r
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -l threads -d 'Threads of the generator [default: half of the CPUs, at most 4]' -r
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -l mount-port -d 'The port of MOUNT, if it differs from that of NFS and the port mapper does not know it' -r
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -l lock-port -d 'The port of the lock manager for `lock`, if it differs from that of NFS and the port mapper does not know it' -r
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -l uid -d 'User id of the first client; each further client has the next; 0: all are root' -r
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -l timeout -d 'Give up if the server does not answer for this long' -r
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -l retransmit-ms -d 'Retransmit a datagram after this long' -r
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -l server-pid -d 'Process id of a server on this machine, to measure its CPU time per call, context switches and memory' -r
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -l control -d 'Control socket of a Bowline on this machine: the same, and bytes copied and not copied' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -l vs -d 'A second server with the same export: both get the load alternately, three times' -r
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -l json -d 'Write the result as JSON; - for standard output' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -l sync -d 'WRITE with FILE_SYNC instead of UNSTABLE and COMMIT'
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -l keep -d 'Keep the files of the load for the next one'
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -l quiet -d 'No progress bar'
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from load" -s h -l help -d 'Print help'
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from compare" -l peer -d 'The other server: `ganesha` (Debian\'s nfs-ganesha), `knfsd` (the kernel\'s), or a command that serves {DIR} on {PORT} in the foreground' -r
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from compare" -l rounds -d 'Rounds [default: 11, with --quick 3]' -r
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from compare" -l only -d 'Only loads with this text in their names, for example `getattr` or `read 1`; may be repeated' -r
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from compare" -l below -d 'Serve a directory made in this one, on a disk [default: in memory]; with `--only untar`, what it costs that files and names survive a power cut' -r -f -a "(__fish_complete_directories)"
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from compare" -l json -d 'Write the table as JSON' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from compare" -l quick -d 'Fewer and shorter rounds'
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from compare" -s h -l help -d 'Print help'
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from report" -l compact -d 'Write the results as one compact JSON file instead of a page' -r -F
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from report" -s h -l help -d 'Print help'
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from mktree" -l scale -d 'Size factor, for example 0.1 or 10' -r
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from mktree" -l json -d 'Print JSON, for programs'
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from mktree" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from canned" -l port -d 'Port on 127.0.0.1' -r
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from canned" -l loops -d 'Event loops [default: one for each CPU]' -r
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from canned" -l files -d 'A directory in memory for the files' -r -f -a "(__fish_complete_directories)"
complete -c bowline -n "__fish_bowline_using_subcommand bench; and __fish_seen_subcommand_from canned" -s h -l help -d 'Print help'
complete -c bowline -n "__fish_bowline_using_subcommand man" -s h -l help -d 'Print help'
complete -c bowline -n "__fish_bowline_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
