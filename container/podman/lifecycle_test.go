package podman

import (
	"testing"

	"realm.dev/container"
	"realm.dev/container/containertest"
)

func TestSuite(t *testing.T) {
	e := open(t)
	containertest.Suite(t, e, func(t *testing.T) *container.Spec {
		return specOf(t, e, func(s *container.Spec) { s.Init.Args = []string{"wait"} }).Spec
	})
}
