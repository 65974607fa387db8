# The same attacks where boxes lie in a btrfs of our own, and share its space.
# wall: the disk quota of the box's files, and that of all boxes of the store together
# config: store: btrfs
# box: "limits":{"disk_mb":64,"memory_mb":512}
# files: on disk

if [ "$(id -u)" != 0 ] || ! command -v mkfs.btrfs > /dev/null || ! grep -q btrfs /proc/filesystems; then
    skip 'a store' 'no btrfs here, or no root'
    return
fi
is 'the files are a subvolume' "$(stat -c %i "$STATE/boxes/$BOX/fs")" 256
. test/hostile/disk_fill.sh
