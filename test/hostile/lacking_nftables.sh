# A machine without nftables: a network cannot be walled.
# wall: a box with a network is refused, never made without its rules
. test/lib/lacking.sh

lacking_doctor nft 'open network' false 'modprobe nf_tables'
lacking_start nft || fail 'a daemon without nft' "$LOG"
box_new '"network":"open"'
is_error 'a network is refused' 501 UNSUPPORTED \
    "network 'open' needs nf_tables with masquerade, limit and connlimit in the kernel: Protocol not supported; "\
"modprobe nf_tables nft_ct nft_masq nft_limit nft_connlimit nft_reject_inet"
is 'and is not among what it can do' \
    "$(jail_info '[(.can | index("network open")), (.missing[] | select(.what == "open network") | .fix)]')" \
    '[null,"modprobe nf_tables"]'
lacking_box 'a box without a network is made'
run 'cat /proc/net/dev | grep -c :'
is 'and has the loopback alone' "$OUT" 1
lacking_end
