package podman

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"github.com/BurntSushi/toml"
)

// engineKeys are the settings of a containers.conf that say where things are and
// how the engine keeps its own state: a service that differed from the user's in
// them would not find, or would damage, what is there. Nothing among them reaches
// a container.
var engineKeys = []string{
	"cgroup_manager", "conmon_path", "database_backend", "helper_binaries_dir", "image_copy_tmp_dir",
	"lock_type", "num_locks", "runtime", "runtimes", "static_dir", "tmp_dir", "volume_path",
}

// serviceConf is the containers.conf of our own service: of the user's settings
// the engineKeys, and for all that would get into containers the value that adds
// nothing. hooks is an empty directory.
func serviceConf(user map[string]any, hooks string) ([]byte, error) {
	engine := map[string]any{
		"hooks_dir":     []string{hooks},
		"cdi_spec_dirs": []string{hooks},
		"env":           []string{},
	}
	for _, key := range engineKeys {
		if v, ok := user[key]; ok {
			engine[key] = v
		}
	}
	none := []string{}
	conf := map[string]any{
		"engine": engine,
		"containers": map[string]any{
			"annotations": none, "cgroup_conf": none, "default_sysctls": none, "default_ulimits": none, "devices": none,
			"env": none, "env_host": false, "http_proxy": false, "mounts": none, "privileged": false, "volumes": none,
			"log_driver": "none", "init": false, "label": true,
		},
	}
	var out bytes.Buffer
	if err := toml.NewEncoder(&out).Encode(conf); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// userEngine reads the [engine] tables of files, the later over the earlier as
// Podman does. Files that are not there are passed over.
func userEngine(files []string) (map[string]any, error) {
	merged := map[string]any{}
	for _, file := range files {
		var conf struct {
			Engine map[string]any `toml:"engine"`
		}
		_, err := toml.DecodeFile(file, &conf)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue
		}
		if err != nil {
			return nil, err
		}
		maps.Copy(merged, conf.Engine)
	}
	return merged, nil
}

// confFiles lists the configuration files that Podman reads for this user, in
// its order.
func confFiles(uid int, getenv func(string) string) []string {
	var files []string
	if f := getenv("CONTAINERS_CONF"); f != "" {
		files = append(files, f)
	} else {
		for _, base := range confBases(uid, getenv) {
			files = append(files, base)
			// Glob sorts, and has no error for a pattern of ours.
			dropIns, _ := filepath.Glob(base + ".d/*.conf")
			files = append(files, dropIns...)
		}
	}
	if f := getenv("CONTAINERS_CONF_OVERRIDE"); f != "" {
		files = append(files, f)
	}
	return files
}

func confBases(uid int, getenv func(string) string) []string {
	bases := []string{"/usr/share/containers/containers.conf", "/etc/containers/containers.conf"}
	if uid != 0 {
		bases = append(bases, "/etc/containers/containers.rootless.conf")
	}
	home := getenv("XDG_CONFIG_HOME")
	if home == "" {
		home = filepath.Join(getenv("HOME"), ".config")
	}
	return append(bases, filepath.Join(home, "containers/containers.conf"))
}

// writeConf writes the own service's configuration below dir, and returns a
// digest of the settings of the user's that are in it.
func writeConf(dir string) (digest string, err error) {
	user, err := userEngine(confFiles(os.Getuid(), os.Getenv))
	if err != nil {
		return "", err
	}
	hooks := filepath.Join(dir, "hooks")
	if err := os.Mkdir(hooks, 0o700); err != nil {
		return "", err
	}
	data, err := serviceConf(user, hooks)
	if err != nil {
		return "", err
	}
	// A mounts.conf, the user's or the distribution's, copies directories of the
	// host into every container; ours is empty.
	if err := os.WriteFile(filepath.Join(dir, noMountsName), nil, 0o600); err != nil {
		return "", err
	}
	sum := sha256.Sum256(bytes.ReplaceAll(data, []byte(dir), nil))
	return hex.EncodeToString(sum[:]), os.WriteFile(filepath.Join(dir, confName), data, 0o600)
}

// Names of the own service's configuration files in its directory.
const (
	confName     = "containers.conf"
	noMountsName = "mounts.conf"
)
