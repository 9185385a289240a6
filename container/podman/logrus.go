package podman

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/sirupsen/logrus"
)

// logTarget is where the library's messages go. logrus is global, so the Engine
// that was opened last has them.
var (
	logTarget atomic.Pointer[slog.Logger]
	logOnce   sync.Once
)

// redirectLogrus sends what Podman's library logs to log, and nothing to our
// standard error.
func redirectLogrus(log *slog.Logger) {
	logTarget.Store(log)
	logOnce.Do(func() {
		logrus.SetOutput(io.Discard)
		logrus.AddHook(logHook{})
	})
}

type logHook struct{}

// Levels leaves out debug and trace: the library formats every request for them.
func (logHook) Levels() []logrus.Level {
	return []logrus.Level{logrus.PanicLevel, logrus.FatalLevel, logrus.ErrorLevel, logrus.WarnLevel, logrus.InfoLevel}
}

func (logHook) Fire(entry *logrus.Entry) error {
	level := slog.LevelDebug
	if entry.Level <= logrus.WarnLevel {
		level = slog.LevelWarn
	}
	logTarget.Load().Log(context.Background(), level, "podman library", "text", entry.Message)
	return nil
}
