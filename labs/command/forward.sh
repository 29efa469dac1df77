# Forwards packets through a chain of ${rules} rules that match none of them.
#
# The lab replaces a name between `$` and braces before the script runs. The shell's own variables
# are written without braces ($rule), or with a second dollar sign, as at the end of the loop.
set -eu

{
    echo 'table inet ${table} {'
    echo '    chain forward {'
    echo '        type filter hook forward priority filter; policy accept;'
    rule=1
    while [ "$rule" -le ${rules} ]; do
        echo "        udp dport 9 counter drop comment \"rule $${rule}\""
        rule=$((rule + 1))
    done
    echo '    }'
    echo '}'
} > rules.nft
nft -f rules.nft
echo 1 > /proc/sys/net/ipv4/ip_forward

touch ready
exec sleep infinity
