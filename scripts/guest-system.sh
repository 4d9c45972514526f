# Makes a minimal Debian tree bootable: guest-system.sh PACKAGE …  whole-system-test runs this inside the tree.
set -eu
export DEBIAN_FRONTEND=noninteractive
# policy-rc.d prevents services from starting during the installation, because this system is not running.
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod +x /usr/sbin/policy-rc.d

# The initramfs contains only the modules for an emulated disk.
mkdir -p /etc/initramfs-tools/conf.d /usr/share/initramfs-tools/modules.d
echo MODULES=list >/etc/initramfs-tools/conf.d/guest
printf '%s\n' virtio_pci virtio_blk ext4 >/usr/share/initramfs-tools/modules.d/guest

apt-get update -q
apt-get install -q -y --no-install-recommends "$@"
apt-get clean
rm -f /usr/sbin/policy-rc.d
ls /vmlinuz /initrd.img

mkdir -p /stalltop
cat >/etc/fstab <<'END'
LABEL=system / ext4 defaults 0 0
LABEL=checkout /stalltop ext4 defaults 0 0
END
echo guest >/etc/hostname
# The Linux kernel's scheduler statistics are on, as on hosts where latencies are analysed.
mkdir -p /etc/sysctl.d
echo kernel.sched_schedstats=1 >/etc/sysctl.d/guest.conf

# This unit runs the steps of the test after all other units have started. The system powers off when the steps end.
cat >/etc/systemd/system/steps.service <<'END'
[Unit]
Description=Steps of whole-system-test
After=multi-user.target
SuccessAction=poweroff-force
FailureAction=poweroff-force
[Service]
Type=oneshot
Environment=HOME=/root LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
WorkingDirectory=/stalltop
ExecStart=/bin/sh -c 'exec .venv/bin/python -P -m tests.systems <>/dev/virtio-ports/stalltop >&0 2>&1'
END
mkdir -p /etc/systemd/system/multi-user.target.wants
ln -sf ../steps.service /etc/systemd/system/multi-user.target.wants/steps.service
systemctl set-default multi-user.target
# These timers would compete for the emulated CPUs.
systemctl mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer man-db.timer
