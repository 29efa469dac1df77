//! Programs on interfaces that have been moved to another network namespace. They go with their
//! interface, and there they would judge by indices and rules of here.

use weir_bpf::firewall::Firewall;
use weir_net::netns;

/// Takes this firewall's programs off interfaces of other namespaces, as far as those have a name
/// or a process and can be entered: beyond them nobody could.
pub(super) fn detach(firewall: &Firewall) {
    let in_one = || {
        for link in super::links().unwrap_or_default() {
            // It may have gone meanwhile.
            drop(firewall.detach(link.ifindex));
        }
    };
    // Without /proc there is nowhere to look.
    drop(netns::for_all_others(in_one));
}
