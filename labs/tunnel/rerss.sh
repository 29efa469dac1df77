# Forwards packets, after they were handed to CPU 0 or 1 by the flow that they carry. It is on
# whatever the rate, so that the report shows where it does not help.
set -eu

echo 1 > /proc/sys/net/ipv4/ip_forward
exec ${weir} rerss run -i dut0 --cpus 0,1 --from 0 --json > counts.json
