module realm.dev

go 1.26.8
