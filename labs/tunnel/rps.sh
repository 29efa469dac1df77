# Forwards packets; the stack goes on with each flow on CPU 0 or 1 (receive packet steering).
set -eu

echo 1 > /proc/sys/net/ipv4/ip_forward
for queue in /sys/class/net/dut0/queues/rx-*; do
    echo 3 > "$queue/rps_cpus"
done

touch ready
exec sleep infinity
