# A mail server: 16 threads that deliver mails with a sync each, and read them.
# Strata's own text with the parameters of filebench's varmail, but for one: with the published 1000 files the number of mails
# drifts up until all exist, and the run ends early on fast storage. Here there are 10000; --set nfiles=1000 is as published.
set $dir=/tmp
set $nfiles=10000
set $nthreads=16
set $filesize=cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)
set $dirwidth=1000000
set $iosize=1m
set $appendsize=16k
set $memsize=10m

define fileset name=bigfileset,path=$dir,entries=$nfiles,size=$filesize,dirwidth=$dirwidth,prealloc=80

define process name=filereader,instances=1 {
  thread name=filereaderthread,instances=$nthreads,memsize=$memsize {
    flowop deletefile name=deletefile1,filesetname=bigfileset
    flowop createfile name=createfile2,filesetname=bigfileset,fd=1
    flowop appendfilerand name=appendfilerand2,iosize=$appendsize,fd=1
    flowop fsync name=fsyncfile2,fd=1
    flowop closefile name=closefile2,fd=1
    flowop openfile name=openfile3,filesetname=bigfileset,fd=1
    flowop readwholefile name=readfile3,fd=1,iosize=$iosize
    flowop appendfilerand name=appendfilerand3,iosize=$appendsize,fd=1
    flowop fsync name=fsyncfile3,fd=1
    flowop closefile name=closefile3,fd=1
    flowop openfile name=openfile4,filesetname=bigfileset,fd=1
    flowop readwholefile name=readfile4,fd=1,iosize=$iosize
    flowop closefile name=closefile4,fd=1
  }
}

run 60
