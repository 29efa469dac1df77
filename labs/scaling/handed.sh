# Forwards packets by many rules, each on the CPU that its flow belongs to.
set -eu

echo 1 > /proc/sys/net/ipv4/ip_forward
nft -f slow.nft
exec ${weir} rerss run -i dut0 --cpus ${handed_to} --from 0 --json > counts.json
