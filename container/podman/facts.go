package podman

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings/system"
	"golang.org/x/sys/unix"
	"realm.dev/container"
	"realm.dev/contract"
)

// facts are what the engine and the host can do, as far as the container spec
// depends on it.
type facts struct {
	container.Info
	MaxOpenFiles uint64 // hard limit of this user's processes; 0 = none
}

// enforces says whether limits of one cgroup controller can be set.
func (f *facts) enforces(controller string) bool { return slices.Contains(f.Controllers, controller) }

// Version tells who the engine is and what the host can do.
func (e *Engine) Version(ctx context.Context) (container.Info, error) {
	f, err := e.learn(ctx)
	if err != nil {
		return container.Info{}, err
	}
	return f.Info, nil
}

// learn asks the engine once. The answer takes Podman 80 ms, as it asks the
// host's package manager about each of its programs, so it is remembered beside
// the socket until the engine or its runtime changes.
func (e *Engine) learn(ctx context.Context) (*facts, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.facts != nil {
		return e.facts, nil
	}
	info, ok := e.recall()
	if !ok {
		var err error
		if info, err = e.ask(ctx); err != nil {
			return nil, err
		}
		e.remember(info)
	}
	e.facts = &facts{Info: info}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil && limit.Max != unix.RLIM_INFINITY {
		e.facts.MaxOpenFiles = limit.Max
	}
	return e.facts, nil
}

func (e *Engine) ask(ctx context.Context) (container.Info, error) {
	k, end := e.conn.call(ctx)
	defer end()
	found, err := system.Info(k.ctx, nil)
	if err != nil {
		return container.Info{}, k.fail("tell what it is", err)
	}
	return infoOf(found)
}

// infoOf takes from the engine's account of itself what realm uses.
func infoOf(found *define.Info) (container.Info, error) {
	if found.Host == nil || found.Store == nil || found.Host.OCIRuntime == nil {
		return container.Info{}, contract.Errorf(contract.PodmanUnavailable, "the engine does not tell what it is")
	}
	host, store := found.Host, found.Store
	if host.ServiceIsRemote {
		return container.Info{}, contract.Errorf(contract.PodmanUnavailable, "the engine is remote").
			WithHint("run realm where the engine runs")
	}
	info := container.Info{
		Version: found.Version.Version,
		Runtime: host.OCIRuntime.Name, RuntimeVersion: runtimeVersion(host.OCIRuntime.Version), RuntimePath: host.OCIRuntime.Path,
		Rootless: host.Security.Rootless, CgroupVersion: host.CgroupsVersion, Controllers: host.CgroupControllers,
		SELinux:   host.Security.SELinuxEnabled && selinuxEnforces(),
		GraphRoot: store.GraphRoot, RunRoot: store.RunRoot,
		IdmapShifting: store.GraphStatus["Supports shifting"] == "true",
	}
	info.KnownHoles = append(knownHoles("podman", info.Version), knownHoles(info.Runtime, info.RuntimeVersion)...)
	if info.Rootless {
		for _, m := range host.IDMappings.UIDMap {
			if m.ContainerID != 0 {
				info.SubUIDs += uint64(max(m.Size, 0))
			}
		}
	}
	// Rootless Podman takes no limits on cgroup v1, whatever controllers there are.
	if info.Rootless && info.CgroupVersion == "v1" {
		info.Controllers = nil
	}
	return info, nil
}

// runtimeVersion takes "1.21" from "crun version 1.21\ncommit: …".
func runtimeVersion(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return ""
	}
	return fields[len(fields)-1]
}

func selinuxEnforces() bool {
	data, err := os.ReadFile("/sys/fs/selinux/enforce")
	return err == nil && strings.TrimSpace(string(data)) == "1"
}

// memory is the file that facts are remembered in: valid for one engine version
// on one socket, with the configuration of our own service in it, and for one
// runtime program.
type memory struct {
	Key     string         `json:"key"`
	Runtime string         `json:"runtime"` // identity of the runtime's file
	Info    container.Info `json:"info"`
}

func (e *Engine) memoryFile() string { return filepath.Join(e.dir, "podman-info.json") }

// recall returns the remembered facts if they are of this engine.
func (e *Engine) recall() (container.Info, bool) {
	data, err := os.ReadFile(e.memoryFile())
	if err != nil {
		return container.Info{}, false
	}
	var m memory
	if json.Unmarshal(data, &m) != nil || m.Key != e.memoryKey() || m.Runtime == "" || m.Runtime != identity(m.Info.RuntimePath) {
		return container.Info{}, false
	}
	return m.Info, true
}

// remember writes the facts down; without a place they are asked for again.
func (e *Engine) remember(info container.Info) {
	data, err := json.Marshal(memory{Key: e.memoryKey(), Runtime: identity(info.RuntimePath), Info: info})
	if err != nil {
		return
	}
	temp, err := os.CreateTemp(e.dir, ".podman-info-*")
	if err != nil {
		return
	}
	_, err = temp.Write(data)
	if closeErr := temp.Close(); err != nil || closeErr != nil || os.Rename(temp.Name(), e.memoryFile()) != nil {
		os.Remove(temp.Name())
	}
}

func (e *Engine) memoryKey() string {
	h := sha256.New()
	fmt.Fprintln(h, e.conn.version, e.conn.owner, e.conn.service != nil)
	if svc := e.conn.service; svc != nil {
		fmt.Fprintln(h, identity(svc.binary), svc.confDigest)
	} else {
		fmt.Fprintln(h, e.conn.socket, identity(e.conn.socket))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// identity of a file: it differs when the file is replaced or written to.
func identity(path string) string {
	var st unix.Stat_t
	if path == "" || unix.Stat(path, &st) != nil {
		return ""
	}
	return fmt.Sprintln(st.Dev, st.Ino, st.Size, st.Mtim.Sec, st.Mtim.Nsec)
}
