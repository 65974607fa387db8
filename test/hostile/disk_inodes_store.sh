# The same attacks where boxes lie in a btrfs of our own: metadata is what they could take from others.
# wall: the disk quota of the box's files, which counts their metadata
# config: store: btrfs
# box: "limits":{"disk_mb":4}
# files: on disk

# Names cost some 450 bytes each: a smaller box has enough of them.
if [ "$(id -u)" != 0 ] || ! command -v mkfs.btrfs > /dev/null || ! grep -q btrfs /proc/filesystems; then
    skip 'a store' 'no btrfs here, or no root'
    return
fi
PROMPT_MS=20000 # btrfs ends a subvolume in commits, for which whoever writes to the same store waits
. test/hostile/disk_inodes.sh
