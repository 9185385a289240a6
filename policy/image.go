package policy

import (
	"errors"
	"strings"

	"github.com/distribution/reference"
)

// maxImageBytes bounds a reference: 255 of repository, 128 of tag, a digest.
const maxImageBytes = 512

// checkImage checks an OCI reference. It must say which registry it means: a
// short name would be another image on another host. localhost/name is one that
// was built here.
func checkImage(ref string) error {
	switch {
	case ref == "":
		return errors.New("must not be empty")
	case ref == "host":
		return nil
	case len(ref) > maxImageBytes:
		return errors.New("is longer than 512 bytes")
	}
	parsed, err := reference.Parse(ref)
	if err != nil {
		return errors.New("is not an OCI image reference")
	}
	named, ok := parsed.(reference.Named)
	if !ok {
		return errors.New("names no repository")
	}
	domain := reference.Domain(named)
	if !strings.ContainsAny(domain, ".:") && domain != "localhost" {
		return errors.New("names no registry: write registry/name, or localhost/name for an image built here")
	}
	if d, ok := parsed.(reference.Digested); ok && d.Digest().Algorithm() != "sha256" {
		return errors.New("has a digest that is not sha256")
	}
	return nil
}
