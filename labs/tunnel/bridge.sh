# Forwards frames whatever they carry: a bridge of dut0 and dut1. What the generator sends has the
# address of dut0, which the bridge would keep: here it is behind dut1.
set -eu

ip link add br0 type bridge mcast_snooping 0
ip link set br0 address 02:00:00:00:00:01
ip link set dut0 master br0
ip link set dut1 master br0
bridge fdb replace "$(cat /sys/class/net/dut0/address)" dev dut1 master static
ip link set br0 up
