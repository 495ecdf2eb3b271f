# A file server: 50 threads that write, append to, read, delete and look at files of 128 KiB in the mean.
# Strata's own text with the parameters of filebench's fileserver.
set $dir=/tmp
set $nfiles=10000
set $nthreads=50
set $filesize=cvar(type=cvar-gamma,parameters=mean:131072;gamma:1.5)
set $dirwidth=20
set $iosize=1m
set $appendsize=16k
set $memsize=10m

define fileset name=bigfileset,path=$dir,entries=$nfiles,size=$filesize,dirwidth=$dirwidth,prealloc=80

define process name=filereader,instances=1 {
  thread name=filereaderthread,instances=$nthreads,memsize=$memsize {
    flowop createfile name=createfile1,filesetname=bigfileset,fd=1
    flowop writewholefile name=wrtfile1,srcfd=1,fd=1,iosize=$iosize
    flowop closefile name=closefile1,fd=1
    flowop openfile name=openfile1,filesetname=bigfileset,fd=1
    flowop appendfilerand name=appendfilerand1,iosize=$appendsize,fd=1
    flowop closefile name=closefile2,fd=1
    flowop openfile name=openfile2,filesetname=bigfileset,fd=1
    flowop readwholefile name=readfile1,fd=1,iosize=$iosize
    flowop closefile name=closefile3,fd=1
    flowop deletefile name=deletefile1,filesetname=bigfileset
    flowop statfile name=statfile1,filesetname=bigfileset
  }
}

run 60
