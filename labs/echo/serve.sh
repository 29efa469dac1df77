# An echo server in a namespace behind this router; what it returns goes to the sink.
#
#   generator ── dut0 [ this namespace ] back0 ── card0 [ namespace of the server ]
#        sink ── dut1 [                ]
#
# The lab replaces a name between `$` and braces before this runs; the shell's own variables are
# written without braces. Needs ip(8), ethtool(8), util-linux, and `weir` in the path.
set -eu

server=198.19.10.1
weir=$(command -v weir)
cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)

ip link add back0 type veth peer name card0
# Whatever ends this script ends what it has started.
tied="setpriv --pdeathsig KILL"
unshare --net $tied sleep infinity &
holder=$!
# It is in the namespace of this script until unshare(1) has come so far.
while [ "$(readlink "/proc/$holder/ns/net")" = "$(readlink /proc/self/ns/net)" ]; do
    sleep 0.05
done
ip link set card0 netns "$holder"
inside() { nsenter --net="/proc/$holder/ns/net" "$@"; }

echo 1 >/proc/sys/net/ipv4/ip_forward
ip link set back0 up
inside ip link set card0 up
# By which the server is asked.
inside ip link set lo up
# As a card has it, which puts datagrams of one flow together for a socket that asks for it.
inside ethtool -K card0 gro on
# What is counted are packets: those that are sent as one are cut before they leave.
inside ethtool -K card0 tx-udp-segmentation off
mac() { sed -n 's/.*ether \([0-9a-f:]*\) .*/\1/p'; }
back_mac=$(ip link show back0 | mac)
card_mac=$(inside ip link show card0 | mac)

ip route add "$server" dev back0
ip neighbour add "$server" lladdr "$card_mac" dev back0 nud permanent
ip rule add iif back0 lookup 100
ip route add default via 198.19.0.2 dev dut1 table 100
inside ip address add "$server/32" dev card0
inside ip route add 192.0.2.1 dev card0
inside ip route add default via 192.0.2.1
inside ip neighbour add 192.0.2.1 lladdr "$back_mac" dev card0 nud permanent

nsenter --net="/proc/$holder/ns/net" $tied "$weir" echo serve --listen "$server:7007" -i card0 \
    --table ${table} ${options} --cpus "$cpus" --announce &
serving=$!
end() {
    kill -TERM "$serving" 2>/dev/null || true
    wait "$serving" || true
    kill "$holder" 2>/dev/null || true
    exit 0
}
trap end TERM INT
until inside "$weir" echo ask "$server:7007" >/dev/null 2>&1; do
    kill -0 "$serving" || { wait "$serving"; exit 1; }
    sleep 0.05
done
echo "exec nsenter --net=/proc/$holder/ns/net '$weir' echo ask $server:7007 --counts" >ask
touch ready
wait "$serving"
