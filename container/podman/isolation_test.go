package podman

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	"realm.dev/container"
	"realm.dev/container/idmap"
)

func processSelf() int { return os.Getpid() }

// TestOwnership: whoever owns the workspace, programs write it as themselves and
// the files belong to the owner outside.
func TestOwnership(t *testing.T) {
	e := open(t)
	type owner struct {
		name   string
		id     int
		mapped bool
	}
	owners := []owner{{"the user", os.Getuid(), false}}
	if !e.conn.rootless() {
		owners = []owner{{"root, idmapped", 0, true}, {"a user, idmapped", 1234, true}, {"a user, mapped by hand", 1234, false}}
	}
	for _, o := range owners {
		t.Run(o.name, func(t *testing.T) {
			b := specOf(t, e, func(s *container.Spec) {
				if o.id != os.Getuid() {
					if err := os.Chown(s.Workspace.Source, o.id, o.id); err != nil {
						t.Fatal(err)
					}
				}
				if o.mapped && !s.User.Idmap {
					t.Skip("the file system of /tmp has no idmapped mounts")
				}
				s.User.OwnerUID, s.User.OwnerGID, s.User.Idmap = uint32(o.id), uint32(o.id), o.mapped
			}).start()
			_, err := e.ReadBack(t.Context(), b.id, b.Spec)
			b.must(err)
			file := filepath.Join(b.Workspace.Destination, "new")
			if resp := b.guest.run("write", file, "x"); resp.Code != 0 {
				t.Fatalf("%+v", resp)
			}
			owned(t, b, file)
			if resp := b.guest.run("owner", file); strings.TrimSpace(resp.Output) != "1000 1000" {
				t.Errorf("inside it belongs to %+v", resp)
			}
			checkHostIDs(t, b)
		})
	}
}

// checkHostIDs reads from the kernel who the container's processes are here.
func checkHostIDs(t *testing.T, b *box) {
	t.Helper()
	st, err := b.e.Inspect(t.Context(), b.id)
	b.must(err)
	p := processOf(st.Pid)
	uids, err := p.ids("uid_map")
	if err != nil {
		t.Fatal(err)
	}
	want, _ := b.User.HostIDs(b.e.conn.rootless())
	if got, ok := hostID(uids, container.ProgramUID); !ok || got != want {
		t.Errorf("programs are %d on the host, want %d", got, want)
	}
	status, err := p.status()
	if err != nil {
		t.Fatal(err)
	}
	root, _ := hostID(uids, 0)
	if fields := strings.Fields(status["Uid"]); len(fields) != 4 || fields[1] != strconv.Itoa(int(root)) || root == 0 {
		t.Errorf("PID 1 is %v on the host, want %d", fields, root)
	}
}

// TestNothingOfTheHostIsWritable tries every mount but those that sessions write.
func TestNothingOfTheHostIsWritable(t *testing.T) {
	e := open(t)
	b := specOf(t, e, func(s *container.Spec) { s.Workspace.Write = false }).start()
	resp := b.guest.run("cat", "/proc/self/mountinfo")
	mounts, err := mountinfo.GetMountsFromReader(strings.NewReader(resp.Output), nil)
	if err != nil {
		t.Fatal(err)
	}
	for point := range reachable(mounts) {
		switch {
		case strings.HasPrefix(point, "/dev"), strings.HasPrefix(point, "/proc"), strings.HasPrefix(point, "/sys"):
			continue
		case strings.Contains(" /tmp /run /home /var/tmp ", " "+point+" "):
			continue
		}
		for _, uid := range []uint32{0, 1000} {
			if resp := b.guest.runAs(uid, "write", point+"/realm-test", "x"); resp.Code == 0 {
				t.Errorf("%s is writable for %d", point, uid)
			}
		}
	}
	for _, file := range []string{"/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper", "/proc/sys/vm/drop_caches"} {
		for _, uid := range []uint32{0, 1000} {
			if resp := b.guest.runAs(uid, "write", file, "1"); resp.Code == 0 {
				t.Errorf("%s is writable for %d", file, uid)
			}
		}
	}
	for _, file := range []string{"/etc/shadow", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/1/environ", "/root/.bashrc"} {
		if resp := b.guest.run("cat", file); resp.Code == 0 && resp.Output != "" {
			t.Errorf("%s can be read", file)
		}
	}
	if resp := b.guest.run("list", "/sys/firmware", "/sys/dev/block", "/proc/acpi"); resp.Output != "" {
		t.Errorf("masked directories have content: %+v", resp)
	}
}

// TestTwoSessions see nothing of each other.
func TestTwoSessions(t *testing.T) {
	e := open(t)
	a, b := specOf(t, e).start(), specOf(t, e).start()
	if !e.conn.rootless() && (a.User.Base < b.User.Base+idmap.Size && b.User.Base < a.User.Base+idmap.Size) {
		t.Errorf("the ids %#x and %#x overlap", a.User.Base, b.User.Base)
	}
	if resp := a.guest.run("write", "/tmp/mark", "a"); resp.Code != 0 {
		t.Fatalf("%+v", resp)
	}
	for _, path := range []string{"/tmp/mark", a.Workspace.Destination} {
		if resp := b.guest.run("owner", path); resp.Code == 0 {
			t.Errorf("%s of the other session is there", path)
		}
	}
	for _, g := range []*guest{a.guest, b.guest} {
		if resp := g.run("list", "/proc"); resp.Code != 0 || countNumbers(resp.Output) != 2 { // init and the probe
			t.Errorf("processes: %s", resp.Output)
		}
		if resp := g.run("cat", "/proc/net/unix"); strings.Contains(resp.Output, "@") {
			t.Errorf("abstract sockets: %s", resp.Output)
		}
		if resp := g.run("cat", "/proc/net/dev"); strings.Count(resp.Output, ":") != 1 || !strings.Contains(resp.Output, "lo:") {
			t.Errorf("network devices: %s", resp.Output)
		}
	}
}

func countNumbers(list string) int {
	n := 0
	for _, name := range strings.Fields(list) {
		if _, err := strconv.Atoi(name); err == nil {
			n++
		}
	}
	return n
}

// TestLimitsHold: what ReadBack reads is what programs meet.
func TestLimitsHold(t *testing.T) {
	e := open(t)
	b := specOf(t, e, func(s *container.Spec) { s.Limits.Pids, s.Limits.OpenFiles = 40, 64 }).start()
	limits, err := e.ReadBack(t.Context(), b.id, b.Spec)
	b.must(err)
	f, err := e.learn(t.Context())
	b.must(err)
	for _, l := range limits {
		bounded := l.InForce != nil && *l.InForce > 0 && *l.InForce <= l.Asked
		switch {
		case (l.Name == "memoryBytes" || l.Name == "cpus") && f.Rootless && f.CgroupVersion == "v1":
			if l.InForce != nil || l.Detail == "" {
				t.Errorf("%+v: said to be in force where nothing enforces it", l)
			}
		case !bounded:
			t.Errorf("%+v is not in force", l)
		}
	}
	var made int
	if resp := b.guest.run("openfiles", "200"); resp.Code != 0 {
		t.Errorf("openfiles: %+v", resp)
	} else if _, err := fmt.Sscan(resp.Output, &made); err != nil || made >= 64 || made == 0 {
		t.Errorf("%q files could be opened of 64 (%v)", resp.Output, err)
	}
	if resp := b.guest.run("fill", "/dev/shm/x", strconv.Itoa(9<<20)); resp.Code == 0 {
		t.Error("/dev/shm holds more than its size")
	}
}

// TestProcessesAreCountedPerSession: a limit that counted the host user's other
// processes would leave a session without any.
func TestProcessesAreCountedPerSession(t *testing.T) {
	e := open(t)
	for i := range 3 {
		b := specOf(t, e, func(s *container.Spec) { s.Limits.Pids = 50 }).start()
		resp := b.guest.run("spawn", "100")
		var made int
		// Up to some ten are the threads of PID 1 and of the probe.
		if _, err := fmt.Sscan(resp.Output, &made); err != nil || made >= 50 || made < 30 {
			t.Errorf("session %d: %+v, of 50 (%v)", i, resp, err)
		}
	}
}

// TestMemoryNeedsPermissionToBeUnlimited: rootless on cgroup v1 nothing bounds it.
func TestMemoryNeedsPermissionToBeUnlimited(t *testing.T) {
	e := open(t)
	f, err := e.learn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := specOf(t, e, func(s *container.Spec) { s.Limits.AllowUnenforced = nil })
	t.Cleanup(b.remove)
	err = b.upToStart()
	if f.enforces("memory") {
		b.must(err)
		_, err = e.ReadBack(t.Context(), b.id, b.Spec)
		b.must(err)
		return
	}
	wantUnproven(t, "memory", err)
	if _, err := e.Inspect(t.Context(), b.Name()); err == nil {
		t.Error("the container was made all the same")
	}
}
