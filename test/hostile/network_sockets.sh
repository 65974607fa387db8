# Socket families and protocols with a history: AF_ALG, vsock, packet, raw, netlink but for routes, SCTP, MPTCP, urgent
# data;
# and the interface itself.
# wall: seccomp on the arguments of socket; no capability over the network namespace
. test/lib/calls.sh
calls socket '
unix OK
tcp OK
udp6 OK
netlink_route OK
alg EAFNOSUPPORT
vsock EAFNOSUPPORT
packet EAFNOSUPPORT
old_packet EPERM
raw EPERM
raw6 EPERM
ping EACCES
sctp EPROTONOSUPPORT
mptcp EPROTONOSUPPORT
bluetooth EAFNOSUPPORT
can EAFNOSUPPORT
tipc EAFNOSUPPORT
rds EAFNOSUPPORT
xdp EAFNOSUPPORT
netlink_netfilter EPROTONOSUPPORT
netlink_audit EPROTONOSUPPORT
netlink_uevent EPROTONOSUPPORT
netlink_sock_diag EPROTONOSUPPORT
netlink_high EPROTONOSUPPORT
socketpair EAFNOSUPPORT
urgent EOPNOTSUPP
interface_down EPERM'
for user in agent root; do
    run 'ip link set lo down 2>&1; ip addr add 10.1.1.1/8 dev lo 2>&1; ip link add x type dummy 2>&1; cut -d: -f1 '\
'/proc/net/dev | tail -n +3 | tr -d " "; ls /sys' "\"user\":\"$user\""
    is "$user: the loopback is all there is, and stays as it is" \
        "$(grep -vc 'Operation not permitted' <<< "$OUT") $(tail -1 <<< "$OUT")" '1 lo'
    AS=$user attack isolation 'spoof 10.9.9.9 127.0.0.1'
    like "$user: another source address is of no use" "$OUT" $'^transparent EPERM\nfreebind OK\nbind OK\nsend E'
done
