// Package images builds small OCI images for tests, good ones and hostile
// ones, from the static busybox of the host, and serves them from a registry on
// loopback. Nothing comes from outside.
package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// applets are linked to busybox in /bin.
var applets = []string{
	"cat", "chmod", "echo", "env", "false", "grep", "head", "id", "kill", "ln", "ls", "mkdir", "mount",
	"nc", "ps", "pwd", "rm", "sh", "sleep", "stat", "test", "touch", "true", "unshare", "wc", "wget",
}

// Busybox returns an image of one layer: busybox, /etc/passwd with root and
// nobody, and the usual empty directories. Its configuration asks for nothing
// but a PATH. Without a static busybox the test is skipped.
func Busybox(t testing.TB) v1.Image {
	t.Helper()
	return oci.busybox(t)
}

// A format is one of the two ways to write an image. Health checks exist in
// Docker's only, annotations in OCI's.
type format struct {
	manifest, config, layer types.MediaType
	base                    func() (v1.Image, error) // made once: it is compressed
}

var (
	oci    = newFormat(types.OCIManifestSchema1, types.OCIConfigJSON, types.OCILayer)
	docker = newFormat(types.DockerManifestSchema2, types.DockerConfigJSON, types.DockerLayer)
)

func newFormat(manifest, config, layer types.MediaType) *format {
	f := &format{manifest: manifest, config: config, layer: layer}
	f.base = sync.OnceValues(f.build)
	return f
}

func (f *format) busybox(t testing.TB) v1.Image {
	t.Helper()
	img, err := f.base()
	if missing, ok := errors.AsType[*missingError](err); ok {
		t.Skip(missing)
	}
	if err != nil {
		t.Fatalf("busybox image: %v", err)
	}
	return img
}

func (f *format) build() (v1.Image, error) {
	binary, err := staticBusybox()
	if err != nil {
		return nil, err
	}
	entries := []entry{
		{name: "bin/", mode: 0o755},
		{name: "bin/busybox", mode: 0o755, data: binary},
		{name: "etc/", mode: 0o755},
		{name: "etc/passwd", mode: 0o644, data: []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")},
		{name: "etc/group", mode: 0o644, data: []byte("root:x:0:\nnogroup:x:65534:\n")},
		{name: "tmp/", mode: 0o1777},
	}
	for _, dir := range []string{"dev/", "home/", "proc/", "root/", "run/", "sys/", "usr/", "var/", "var/tmp/"} {
		entries = append(entries, entry{name: dir, mode: 0o755})
	}
	for _, applet := range applets {
		entries = append(entries, entry{name: "bin/" + applet, link: "busybox"})
	}
	img, err := f.append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, f.manifest), f.config), entries)
	if err != nil {
		return nil, err
	}
	return configure(img, func(c *v1.ConfigFile) {
		c.OS, c.Architecture = "linux", runtime.GOARCH
		c.Config.Env = []string{"PATH=/bin"}
	})
}

// An entry is a file of a layer. A name that ends in a slash is a directory.
type entry struct {
	name string
	mode int64 // permission bits, setuid and setgid too
	data []byte
	link string // target, for a symbolic link
}

func (e entry) header() *tar.Header {
	h := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.data)), Typeflag: tar.TypeReg}
	switch {
	case e.link != "":
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, e.link, 0o777
	case strings.HasSuffix(e.name, "/"):
		h.Typeflag = tar.TypeDir
	}
	return h
}

func (f *format) append(img v1.Image, entries []entry) (v1.Image, error) {
	data, err := layerTar(entries)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	}, tarball.WithMediaType(f.layer), tarball.WithCompressionLevel(gzip.BestSpeed), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(img, layer)
}

func layerTar(entries []entry) ([]byte, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, e := range entries {
		if err := w.WriteHeader(e.header()); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
	}
	err := w.Close()
	return buffer.Bytes(), err
}

func configure(img v1.Image, change func(*v1.ConfigFile)) (v1.Image, error) {
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	change(config)
	return mutate.ConfigFile(img, config)
}

// A missingError says what the machine lacks.
type missingError struct{ found string }

func (e *missingError) Error() string { return "needs busybox-static, found " + e.found }

func staticBusybox() ([]byte, error) {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return nil, &missingError{"no busybox"}
	}
	if err := requireStatic(path); err != nil {
		return nil, &missingError{fmt.Sprintf("%s: %v", path, err)}
	}
	return os.ReadFile(path)
}

func requireStatic(path string) error {
	file, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP {
			return errors.New("is linked dynamically")
		}
	}
	return nil
}
